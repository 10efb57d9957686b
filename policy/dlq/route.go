package dlq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

var errLoop = errors.New("the target is the source topic")

// route says where a letter goes: to which cluster, by name, and topic.
func (c *Config) route(l *letter.Letter) (cluster, topic string, err error) {
	template := c.Topic
	for i := range c.Rules {
		if rule := &c.Rules[i]; rule.matches(l) {
			cluster = rule.Cluster
			if rule.Target != "" {
				template = rule.Target
			}
			break
		}
	}
	topic = strings.NewReplacer("{topic}", l.Topic, "{group}", strings.Map(legal, l.Group)).Replace(template)
	switch {
	case !legalTopic(topic):
		return "", "", fmt.Errorf("%.300q cannot be the name of a topic", topic)
	case !strings.HasPrefix(topic, c.AllowedPrefix):
		return "", "", fmt.Errorf("the target %q does not begin with %q", topic, c.AllowedPrefix)
	case topic == l.Topic:
		return "", "", errLoop
	}
	return cluster, topic, nil
}

// legal replaces what a topic's name cannot have.
func legal(c rune) rune {
	if illegalInTopic(c) {
		return '_'
	}
	return c
}

func (r *Rule) matches(l *letter.Letter) bool {
	return r.Group.MatchString(l.Group) && r.Topic.MatchString(l.Topic) && r.Principal.MatchString(l.Principal)
}

// again says whether the record is a dead letter of ours already, rejected from a dead-letter topic. It is not dead-lettered once more, unless
// the configuration asks for that: it is in such a topic, and stays there.
func (c *Config) again(l *letter.Letter) bool {
	if c.Redeadletter || l.Source == nil || c.AllowedPrefix == "" || !strings.HasPrefix(l.Topic, c.AllowedPrefix) {
		return false
	}
	info, _ := letter.Read(l.Source.Headers)
	return info.ID != ""
}
