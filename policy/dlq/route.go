package dlq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/internal/pattern"
)

var errLoop = errors.New("the target is the source topic")

// route says where a letter goes: to which cluster, by name, and topic. The letter's topic is empty where its name is not known; then it goes only
// where any topic's would go.
func (c *Config) route(l *letter.Letter) (cluster, topic string, err error) {
	cluster, template, byName := c.rule(l)
	if l.Topic == "" && (byName || strings.Contains(template, topicPlace)) {
		return "", "", c.noName(l)
	}
	topic = strings.NewReplacer(topicPlace, l.Topic, "{group}", strings.Map(legal, l.Group)).Replace(template)
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

const topicPlace = "{topic}" // in a template

// rule is what the first rule says that matches, else what there is without rules; byName where that depends on the topic's name.
func (c *Config) rule(l *letter.Letter) (cluster, template string, byName bool) {
	for i := range c.Rules {
		rule := &c.Rules[i]
		if !rule.Group.Match(l.Group) || !rule.Principal.Match(l.Principal) {
			continue
		}
		if byName = byName || rule.Topic != pattern.All; !rule.Topic.Match(l.Topic) {
			continue
		}
		return rule.Cluster, first(rule.Target, c.Topic), byName
	}
	return "", c.Topic, byName
}

// noName says that nobody told the name of a letter's topic, and who could.
func (c *Config) noName(l *letter.Letter) error {
	hint := "; configure `source`"
	if c.Source != nil {
		hint = ", and `source` does not tell it"
	}
	return fmt.Errorf("the name of topic %v is not known: no Metadata answer passed by%s", l.TopicID, hint)
}

// legal replaces what a topic's name cannot have.
func legal(c rune) rune {
	if illegalInTopic(c) {
		return '_'
	}
	return c
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

// address finds a letter's target and makes the record that goes there, a view of the source. A topic whose name is not known has its id in the
// headers.
func (p *Policy) address(l *letter.Letter, r *letter.Record) error {
	cluster, topic, err := p.config.route(l)
	if err != nil {
		return err
	}
	if l.Topic == "" {
		l.Topic = l.TopicID.String()
	}
	*r = letter.Record{Cluster: cluster, Topic: topic, Partition: l.Partition, Headers: l.Headers(p.config.Profile)}
	if s := l.Source; s != nil {
		r.Key, r.Value = s.Key, s.Value
		if p.config.OriginalTimestamp {
			r.Timestamp = s.Timestamp
		}
	}
	return nil
}
