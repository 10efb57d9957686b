package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/internal/pattern"
	"github.com/ackproxy/ackproxy/policy/internal/settings"
)

// check looks at what single keys cannot show.
func (c *Config) check(r *reader) {
	if len(c.Cluster.Bootstrap) == 0 {
		r.missing("cluster.bootstrap", "it says where dead letters go")
	}
	c.checkTarget(r, "topic", c.Topic)
	for i, rule := range c.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		if rule.Target != "" {
			c.checkTarget(r, path+".topic", rule.Target)
		}
		if _, known := c.Clusters[rule.Cluster]; rule.Cluster != "" && !known {
			r.Add(path+".cluster", fmt.Sprintf("there is no cluster %q", rule.Cluster), "name it below clusters")
		}
		if rule.Target == "" && rule.Cluster == "" {
			r.Add(path, "the rule changes nothing", "give it a topic, a cluster, or both")
		}
		c.checkShadowed(r, i)
	}
	if len(c.OnFailure) == 0 {
		r.Add("on_failure", "nothing would be done", "write one of "+strings.Join(choiceNames, ", "))
	}
	for i, choice := range c.OnFailure {
		switch last := i == len(c.OnFailure)-1; {
		case slices.Contains(c.OnFailure[:i], choice):
			r.Add(fmt.Sprintf("on_failure[%d]", i), choice.String()+" stands there twice", "")
		case choice >= Withhold && !last:
			r.Add(fmt.Sprintf("on_failure[%d]", i), choice.String()+" always works: what follows is never tried", "put it last")
		case choice < Withhold && last:
			r.Add("on_failure", choice.String()+" does not always work, and nothing follows it", "end with withhold, forward or close")
		}
	}
	if !c.OnReject && !c.OnReleaseAtLimit {
		r.Add("on", "nothing would be dead-lettered", "write reject, release_at_limit, or both")
	}
	if c.Memory < c.MaxRecord {
		r.Add("memory", "less than max_record", "a letter has to fit")
	}
	if c.standDownSet && c.Source == nil {
		r.Add("stand_down", "the broker's own dead-letter queue cannot be seen without a source", "name the source, or leave the key out")
	}
	if c.Infer && c.Source == nil && !slices.Contains(c.OnFailure, Spool) {
		r.Add("infer", "needs a source, or a spool", "")
	}
}

// check refuses patterns that fit nothing that there can be.
func (r *Rule) check(m *reader, path string) {
	if r.Group == "" {
		m.Add(settings.Join(path, "group"), "no group has an empty name", "write *, or remove the key")
	}
	if r.Topic == "" {
		m.Add(settings.Join(path, "topic"), "no topic has an empty name", "write *, or remove the key")
	}
	for _, c := range r.Topic {
		if c != '*' && c != '?' && illegalInTopic(c) {
			m.Add(settings.Join(path, "topic"), fmt.Sprintf("%q fits no topic: their names have letters, digits, dots, dashes and underscores only", r.Topic), "")
			break
		}
	}
	m.Principal(settings.Join(path, "principal"), r.Principal)
}

func (r *Rule) everyone() bool {
	return r.covers(&Rule{Group: pattern.All, Topic: pattern.All, Principal: pattern.All})
}

// covers says that the rule matches all that another one does.
func (r *Rule) covers(o *Rule) bool {
	return r.Group.Covers(o.Group) && r.Topic.Covers(o.Topic) && r.Principal.Covers(o.Principal)
}

// checkShadowed refuses a rule that an earlier one leaves nothing for.
func (c *Config) checkShadowed(r *reader, i int) {
	path := fmt.Sprintf("rules[%d]", i)
	for j := range c.Rules[:i] {
		if !c.Rules[j].covers(&c.Rules[i]) {
			continue
		}
		whom := "matches all that it does"
		if c.Rules[j].everyone() {
			whom = "is for everyone"
		}
		r.Add(path, fmt.Sprintf("the rule is never used: rules[%d] %s", j, whom), "put it before that one")
		return
	}
}

// CheckClients says what keeps the clients of the configured clusters from being made: files that cannot be read, above all. No broker is asked. What
// is wrong is joined, each a *policy.ConfigError.
func (c *Config) CheckClients() error {
	var wrong []error
	all := c.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		cluster := all[name]
		small, alone, err := senderOptions(&cluster, c)
		if err == nil {
			err = cmp.Or(kgo.ValidateOpts(small...), kgo.ValidateOpts(alone...))
		}
		if err != nil {
			wrong = append(wrong, below(clusterKey(name), err))
		}
	}
	if c.Source != nil {
		opts, err := c.Source.Options()
		if err == nil {
			err = kgo.ValidateOpts(opts...)
		}
		if err != nil {
			wrong = append(wrong, below("source", err))
		}
	}
	return errors.Join(wrong...)
}

// below is an error as one of a key, or of one that is below it.
func below(key string, err error) error {
	var mistake *policy.ConfigError
	if errors.As(err, &mistake) {
		return &policy.ConfigError{Key: settings.Join(key, mistake.Key), Problem: mistake.Problem, Hint: mistake.Hint}
	}
	return &policy.ConfigError{Key: key, Problem: err.Error()}
}

// CheckState says whether the policy can do with a state directory; empty is none. The error is a *policy.ConfigError.
func (c *Config) CheckState(dir string) error {
	if dir != "" || !slices.Contains(c.OnFailure, Spool) {
		return nil
	}
	return &policy.ConfigError{Key: "on_failure", Problem: "a spool needs a state directory, and there is none",
		Hint: "name one, or write [release, withhold]"}
}

// checkTransactions says whether the policy can do what is wanted of it where the program does, or does not, have it decide about their ends.
func (c *Config) checkTransactions(decides bool) error {
	if decides || !c.QueueTransactions {
		return nil
	}
	return &policy.ConfigError{Key: "transactions", Problem: "the policy does not see here how a transaction ends",
		Hint: "write pass, or run it as builtin: dlq and not as a plugin"}
}

// checkTarget looks at a template of a topic's name, as far as that can be seen before the names are put in.
func (c *Config) checkTarget(r *reader, path, template string) {
	fixed := strings.NewReplacer("{topic}", "t", "{group}", "g").Replace(template)
	switch {
	case template == "":
		r.missing(path, "it is the template of the target's name")
	case strings.ContainsAny(fixed, "{}"):
		r.Add(path, fmt.Sprintf("%q has a placeholder that is not known", template), "known are {topic} and {group}")
	case !legalTopic(fixed):
		r.Add(path, fmt.Sprintf("%q does not make the name of a topic", template), "write letters, digits, dots, dashes and underscores")
	case template == "{topic}":
		r.Add(path, "the target would be the source", "put a prefix before {topic}")
	case !strings.HasPrefix(template, c.AllowedPrefix):
		r.Add(path, fmt.Sprintf("%q does not begin with allowed_prefix %q", template, c.AllowedPrefix), "")
	}
}

func (r *reader) missing(path, why string) { r.Add(path, "is missing: "+why, "") }

const maxTopic = 249 // bytes of a topic's name

// legalTopic says whether a broker would take it as a topic's name.
func legalTopic(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxTopic && !strings.ContainsFunc(name, illegalInTopic)
}

func illegalInTopic(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		return false
	}
	return true
}
