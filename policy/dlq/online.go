package dlq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// Check asks the clusters of a configuration whether they can be reached, and whether the topics that it names exist and may be written to. Names
// that come of templates are not known beforehand. What is wrong is joined, each a *policy.ConfigError.
func (c *Config) Check(ctx context.Context) error {
	var wrong []error
	for name, cluster := range c.all() {
		wrong = append(wrong, checkCluster(ctx, clusterKey(name), &cluster, c.named(name), c.Create != nil)...)
	}
	if c.Source != nil {
		wrong = append(wrong, checkCluster(ctx, "source", c.Source, nil, false)...)
	}
	return errors.Join(wrong...)
}

// named are the target topics of a cluster that have a name of their own, by the key that names them.
func (c *Config) named(cluster string) map[string]string {
	topics := make(map[string]string)
	add := func(key, topic string) {
		if !strings.Contains(topic, "{") && topic != "" {
			topics[key] = topic
		}
	}
	if cluster == "" {
		add("topic", c.Topic)
	}
	for i, r := range c.Rules {
		if r.Cluster != cluster {
			continue
		}
		add(fmt.Sprintf("rules[%d].topic", i), r.Target)
		if r.Target == "" {
			add(fmt.Sprintf("rules[%d]", i), c.Topic)
		}
	}
	return topics
}

func checkCluster(ctx context.Context, key string, c *Cluster, topics map[string]string, made bool) (wrong []error) {
	opts, err := c.Options()
	if err != nil {
		return []error{below(key, err)}
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return []error{below(key, err)}
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return []error{&policy.ConfigError{Key: key, Problem: "no broker can be reached: " + cause(err)}}
	}
	for key, topic := range topics {
		if problem := checkTopic(ctx, client, topic, made); problem != "" {
			wrong = append(wrong, &policy.ConfigError{Key: key, Problem: fmt.Sprintf("%s: %s", topic, problem)})
		}
	}
	return wrong
}

// checkTopic says what keeps letters from being written to a topic; empty where nothing is known to.
func checkTopic(ctx context.Context, client *kgo.Client, topic string, made bool) string {
	q := kmsg.NewPtrMetadataRequest()
	one := kmsg.NewMetadataRequestTopic()
	one.Topic = &topic
	q.Topics, q.IncludeTopicAuthorizedOperations = append(q.Topics, one), true
	answer, err := q.RequestWith(ctx, client)
	if err != nil {
		return cause(err)
	}
	if len(answer.Topics) != 1 {
		return "the broker does not say anything about it"
	}
	got := &answer.Topics[0]
	err = kerr.ErrorForCode(got.ErrorCode)
	switch ops := got.AuthorizedOperations; {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && made:
		return ""
	case err != nil:
		return cause(err)
	case ops != math.MinInt32 && ops&(1<<kmsg.ACLOperationWrite) == 0:
		return "there is no permission to write"
	}
	return ""
}
