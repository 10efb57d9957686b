package dlq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// Check asks the clusters of a configuration whether they can be reached; whether the topics that it names exist and may be written to, and those
// that exist already of the names which come of templates; and whether the source says what the policy asks of it. What is wrong is joined, each a
// *policy.ConfigError; the notes, of the same kind, are what could not be checked.
func (c *Config) Check(ctx context.Context) (notes []error, wrong error) {
	k := &checker{create: c.Create}
	all := c.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		cluster := all[name]
		k.cluster(ctx, clusterKey(name), &cluster, func() { k.targets(ctx, c.targets(name)) })
	}
	if c.Source != nil {
		k.cluster(ctx, "source", c.Source, func() { k.source(ctx) })
	}
	return k.notes, errors.Join(k.wrong...)
}

// targets are the names, and templates of names, of the topics that letters go to in a cluster, by the key that has them.
func (c *Config) targets(cluster string) map[string]string {
	topics := make(map[string]string)
	if cluster == "" {
		topics["topic"] = c.Topic
	}
	for i, r := range c.Rules {
		switch key := fmt.Sprintf("rules[%d]", i); {
		case r.Cluster != cluster:
		case r.Target == "":
			topics[key] = c.Topic
		default:
			topics[key+".topic"] = r.Target
		}
	}
	return topics
}

// checker gathers what clusters say.
type checker struct {
	create       *Create // nil: topics that are missing are not made
	client       *kgo.Client
	wrong, notes []error
}

func (k *checker) add(key, problem, hint string) {
	k.wrong = append(k.wrong, &policy.ConfigError{Key: key, Problem: problem, Hint: hint})
}

func (k *checker) note(key, text string) {
	k.notes = append(k.notes, &policy.ConfigError{Key: key, Problem: text})
}

// cluster calls further once a cluster has let the policy in.
func (k *checker) cluster(ctx context.Context, key string, c *Cluster, further func()) {
	opts, err := c.Options()
	if err == nil {
		k.client, err = kgo.NewClient(opts...)
	}
	if err != nil {
		k.wrong = append(k.wrong, below(key, err))
		return
	}
	defer k.client.Close()
	if err := k.client.Ping(ctx); err != nil {
		k.add(key, "no broker can be reached: "+cause(err), "")
		return
	}
	further()
}

func (k *checker) targets(ctx context.Context, all map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if topic := all[key]; strings.Contains(topic, "{") {
			k.template(ctx, key, topic)
		} else {
			k.topic(ctx, key, topic)
		}
	}
}

// topic looks for what keeps letters from being written to one.
func (k *checker) topic(ctx context.Context, key, topic string) {
	got, err := k.topics(ctx, topic)
	switch {
	case err == nil && len(got) != 1:
		err = errors.New("the broker does not say anything about it")
	case err == nil:
		err = kerr.ErrorForCode(got[0].ErrorCode)
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && k.create != nil:
		k.note(key, topic+": not checked whether it may be written to, there is no such topic yet")
		k.creatable(ctx, key, topic, topic)
	case err != nil:
		k.add(key, topic+": "+cause(err), "")
	case !permits(&got[0], kmsg.ACLOperationWrite):
		k.add(key, topic+": there is no permission to write", "")
	}
}

// template does the same for all topics whose names may come of one.
func (k *checker) template(ctx context.Context, key, template string) {
	of := regexp.MustCompile("^" + strings.NewReplacer(`\{topic\}`, ".+", `\{group\}`, ".+").Replace(regexp.QuoteMeta(template)) + "$")
	all, err := k.topics(ctx)
	if err != nil {
		k.add(key, template+": "+cause(err), "")
		return
	}
	found, refused := 0, []string(nil)
	for i := range all {
		if t := &all[i]; t.Topic != nil && of.MatchString(*t.Topic) {
			found++
			if !permits(t, kmsg.ACLOperationWrite) {
				refused = append(refused, *t.Topic)
			}
		}
	}
	if k.create != nil {
		k.creatable(ctx, key, template, strings.NewReplacer("{topic}", "ackproxy-validate", "{group}", "ackproxy-validate").Replace(template))
	}
	switch {
	case found == 0:
		k.note(key, template+": not checked whether it may be written to, there is no topic of such a name yet, or none that may be seen")
	case len(refused) > 0:
		k.add(key, few(refused)+": there is no permission to write", "")
	}
}

// creatable asks whether a topic could be made, or one for a template, which says what is not permitted and what does not fit the cluster. Nothing is made.
func (k *checker) creatable(ctx context.Context, key, name, topic string) {
	all, err := kadm.NewClient(k.client).ValidateCreateTopics(ctx, int32(k.create.Partitions), int16(k.create.Replication), k.create.configs(), topic)
	why := ""
	if err == nil {
		err, why = all[topic].Err, all[topic].ErrMessage
	}
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
		return
	}
	text := name + ": it could not be made: " + cause(err)
	switch {
	case !errors.Is(err, kerr.TopicAuthorizationFailed):
		k.add(key, strings.TrimSuffix(text+", "+why, ", "), "")
	case name == topic:
		k.add(key, text, "permit CREATE on it")
	default: // each may have a permission of its own
		k.note(key, text+", asked of "+topic)
	}
}

// source looks for what keeps settings and records from being read. Groups have names that only clients know.
func (k *checker) source(ctx context.Context) {
	s := &source{client: k.client}
	id, err := s.anyBroker(ctx)
	if err == nil {
		_, err = s.configs(ctx, kmsg.ConfigResourceTypeBroker, id)
	}
	if err != nil {
		k.add("source", "the brokers' settings cannot be read: "+cause(err), "permit DESCRIBE_CONFIGS on the cluster")
	}
	all, err := k.topics(ctx)
	if err != nil {
		k.add("source", "topics: "+cause(err), "")
		return
	}
	var refused []string
	for i := range all {
		if t := &all[i]; t.Topic != nil && !permits(t, kmsg.ACLOperationRead) {
			refused = append(refused, *t.Topic)
		}
	}
	slices.Sort(refused)
	switch {
	case len(all) == 0:
		k.note("source", "not checked whether records may be read, there is no topic yet, or none that may be seen")
	case len(refused) == len(all):
		k.add("source", "there is no permission to read any topic", "permit READ on those that are dead-lettered")
	case len(refused) > 0:
		k.note("source", "there is no permission to read "+few(refused))
	}
}

// topics asks for some topics, or for all, and what is permitted there.
func (k *checker) topics(ctx context.Context, names ...string) ([]kmsg.MetadataResponseTopic, error) {
	q := kmsg.NewPtrMetadataRequest()
	q.IncludeTopicAuthorizedOperations = true
	for _, name := range names {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = &name
		q.Topics = append(q.Topics, one)
	}
	answer, err := q.RequestWith(ctx, k.client)
	if err != nil {
		return nil, err
	}
	return answer.Topics, nil
}

// permits says whether an operation is permitted, or the broker does not say.
func permits(t *kmsg.MetadataResponseTopic, op kmsg.ACLOperation) bool {
	return t.AuthorizedOperations == math.MinInt32 || t.AuthorizedOperations&(1<<op) != 0
}

// few names some of many.
func few(names []string) string {
	const most = 3
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
