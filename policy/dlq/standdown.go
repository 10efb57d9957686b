package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Settings of brokers, groups and topics (KIP-932, KIP-1191, KIP-1240).
const (
	keyGroupLimit  = "share.delivery.count.limit"
	keyGroupLock   = "share.record.lock.duration.ms"
	keyBrokerLimit = "group.share.delivery.count.limit"
	keyBrokerLock  = "group.share.record.lock.duration.ms"
	keyQueueTopic  = "errors.deadletterqueue.topic.name"
	keyQueueAuto   = "errors.deadletterqueue.auto.create.topics.enable"
	keyQueuePrefix = "errors.deadletterqueue.topic.name.prefix"
	keyQueueAllow  = "errors.deadletterqueue.group.enable"

	shareFeature  = "share.version"
	queueFeature  = 2 // the level from which brokers dead-letter
	defaultPrefix = "dlq."
)

// brokerQueue is the dead-letter queue that a broker has for a group (KIP-1191).
type brokerQueue struct {
	topic   string // empty: none is set
	problem string // why nothing is written although it is set; a broker takes such settings and says nothing
	why     string // the same as a label of metrics
}

// Values of the label why.
const (
	whyLevel   = "share_version"
	whyPrefix  = "prefix"
	whyNoTopic = "no_topic"
	whyNoFlag  = "not_allowed"
	whySource  = "source_topic"
	whyUnseen  = "not_seen"
)

// works says whether the broker writes the group's dead letters from a topic.
func (q *brokerQueue) works(source string) bool {
	return q.topic != "" && q.fails(source) == ""
}

// fails is why it does not, as a label; empty where it does, or has no queue.
func (q *brokerQueue) fails(source string) string {
	switch {
	case q.topic == "" || q.why != "":
		return q.why
	case q.topic == source:
		return whySource
	}
	return ""
}

// state is for an operator.
func (q *brokerQueue) state() string {
	switch {
	case q.topic == "":
		return "the broker has no dead-letter queue for it"
	case q.problem != "":
		return "the broker's dead-letter queue " + strconv.Quote(q.topic) + " is set and does not work: " + q.problem
	}
	return "the broker's dead-letter queue " + strconv.Quote(q.topic) + " is set and works, but for records of that topic itself"
}

// leave leaves out the partitions whose dead letters the broker writes.
func (p *Policy) leave(parts []part, g group) []part {
	kept := parts[:0]
	for _, one := range parts {
		if g.own.works(one.asked.Topic) {
			p.metrics.stoodDown.Inc()
			continue
		}
		if why := g.own.fails(one.asked.Topic); why != "" {
			p.metrics.tookOver.WithLabelValues(why).Inc()
		}
		kept = append(kept, one)
	}
	return kept
}

// settings reads what counts for a group. On an error g may be read in part.
func (s *source) settings(ctx context.Context, g *group) error {
	own, err := s.configs(ctx, kmsg.ConfigResourceTypeGroupConfig, g.name)
	if err != nil {
		return err
	}
	var broker map[string]string // stays empty where reading it is forbidden; brokers before 4.3 have the limit there only
	if id, err := s.anyBroker(ctx); err == nil {
		broker, _ = s.configs(ctx, kmsg.ConfigResourceTypeBroker, id)
	}
	if n, err := strconv.Atoi(first(own[keyGroupLimit], broker[keyBrokerLimit])); err == nil && n > 0 {
		g.limit = n
	}
	if ms, err := strconv.ParseInt(first(own[keyGroupLock], broker[keyBrokerLock]), 10, 32); err == nil && ms > 0 {
		g.lock = time.Duration(ms) * time.Millisecond
	}
	g.own = brokerQueue{topic: own[keyQueueTopic]}
	if g.own.topic != "" {
		g.own.why, g.own.problem = s.queueProblem(ctx, g.own.topic, broker)
	}
	return nil
}

// queueProblem says why a broker with these settings would write nothing to the topic; empty where it would. What cannot be seen is a problem,
// too: two dead letters are better than none.
func (s *source) queueProblem(ctx context.Context, topic string, broker map[string]string) (why, problem string) {
	level, err := s.shareVersion(ctx)
	if err != nil {
		return whyUnseen, cause(err)
	}
	prefix, known := broker[keyQueuePrefix]
	if !known {
		prefix = defaultPrefix
	}
	switch {
	case level < queueFeature:
		return whyLevel, fmt.Sprintf("%s is finalized at %d, it takes %d", shareFeature, level, queueFeature)
	case !strings.HasPrefix(topic, prefix):
		return whyPrefix, fmt.Sprintf("the topic's name does not begin with %q", prefix)
	}
	settings, err := s.configs(ctx, kmsg.ConfigResourceTypeTopic, topic)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && broker[keyQueueAuto] == "true":
		return "", "" // the broker makes it
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return whyNoTopic, "there is no such topic"
	case err != nil:
		return whyUnseen, cause(err)
	case settings[keyQueueAllow] != "true":
		return whyNoFlag, "the topic does not have " + keyQueueAllow + "=true"
	}
	return "", ""
}

// configs reads the settings of one resource. A broker without a name is the one that answers.
func (s *source) configs(ctx context.Context, kind kmsg.ConfigResourceType, name string) (map[string]string, error) {
	q := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = kind, name
	q.Resources = append(q.Resources, one)
	answer, err := q.RequestWith(ctx, s.client)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	if len(answer.Resources) != 1 {
		return nil, errors.New("settings: none in the answer")
	}
	if err := kerr.ErrorForCode(answer.Resources[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	values := make(map[string]string, len(answer.Resources[0].Configs))
	for _, c := range answer.Resources[0].Configs {
		if c.Value != nil {
			values[c.Name] = *c.Value
		}
	}
	return values, nil
}

// anyBroker is the id of one, for settings that all have alike.
func (s *source) anyBroker(ctx context.Context) (string, error) {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{} // none
	answer, err := q.RequestWith(ctx, s.client)
	if err != nil {
		return "", fmt.Errorf("metadata: %w", err)
	}
	if len(answer.Brokers) == 0 {
		return "", errors.New("metadata: no brokers")
	}
	return strconv.Itoa(int(answer.Brokers[0].NodeID)), nil
}

// shareVersion is the finalized level of share groups; 0 is none.
func (s *source) shareVersion(ctx context.Context) (int16, error) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "ackproxy", "dlq"
	answer, err := q.RequestWith(ctx, s.client)
	if err != nil {
		return 0, fmt.Errorf("versions: %w", err)
	}
	for _, f := range answer.FinalizedFeatures {
		if f.Name == shareFeature {
			return f.MaxVersionLevel, nil
		}
	}
	return 0, nil
}

// first is the first of two that is not empty.
func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
