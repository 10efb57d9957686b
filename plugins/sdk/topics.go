package sdk

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
)

// topics are the names that came with outcomes.
var topics, _ = lru.New[codec.UUID, string](16384)

// TopicName is the name of a topic of which something was observed, where ackproxy knew it.
func TopicName(id codec.UUID) (string, bool) { return topics.Get(id) }

// learnTopics notes the names that come with an outcome.
func learnTopics(m *policyv1.Outcome) {
	for _, p := range m.GetRequest().GetPartitions() {
		learnTopic(p.GetTopicId(), p.GetTopic())
	}
	for _, p := range m.GetDecision().GetPartitions() {
		learnTopic(p.GetTopicId(), p.GetTopic())
	}
}

func learnTopic(id []byte, name string) {
	if len(id) != len(codec.UUID{}) || name == "" {
		return
	}
	if known, ok := topics.Get(codec.UUID(id)); !ok || known != name {
		topics.Add(codec.UUID(id), name)
	}
}
