package dlq

import (
	"fmt"
	"slices"
	"strings"
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
			r.add(path+".cluster", fmt.Sprintf("there is no cluster %q", rule.Cluster), "name it below clusters")
		}
		if rule.Target == "" && rule.Cluster == "" {
			r.add(path, "the rule changes nothing", "give it a topic, a cluster, or both")
		}
	}
	if len(c.OnFailure) == 0 {
		r.add("on_failure", "nothing would be done", "write one of "+strings.Join(choiceNames, ", "))
	}
	for i, choice := range c.OnFailure {
		switch last := i == len(c.OnFailure)-1; {
		case slices.Contains(c.OnFailure[:i], choice):
			r.add(fmt.Sprintf("on_failure[%d]", i), choice.String()+" stands there twice", "")
		case choice >= Withhold && !last:
			r.add(fmt.Sprintf("on_failure[%d]", i), choice.String()+" always works: what follows is never tried", "put it last")
		case choice < Withhold && last:
			r.add("on_failure", choice.String()+" does not always work, and nothing follows it", "end with withhold, forward or close")
		}
	}
	if !c.OnReject && !c.OnReleaseAtLimit {
		r.add("on", "nothing would be dead-lettered", "write reject, release_at_limit, or both")
	}
	if c.Memory < c.MaxRecord {
		r.add("memory", "less than max_record", "a letter has to fit")
	}
	if c.Infer && c.Source == nil && !slices.Contains(c.OnFailure, Spool) {
		r.add("infer", "needs a source, or a spool", "")
	}
}

// checkTarget looks at a template of a topic's name, as far as that can be seen before the names are put in.
func (c *Config) checkTarget(r *reader, path, template string) {
	fixed := strings.NewReplacer("{topic}", "t", "{group}", "g").Replace(template)
	switch {
	case template == "":
		r.missing(path, "it is the template of the target's name")
	case strings.ContainsAny(fixed, "{}"):
		r.add(path, fmt.Sprintf("%q has a placeholder that is not known", template), "known are {topic} and {group}")
	case !legalTopic(fixed):
		r.add(path, fmt.Sprintf("%q does not make the name of a topic", template), "write letters, digits, dots, dashes and underscores")
	case template == "{topic}":
		r.add(path, "the target would be the source", "put a prefix before {topic}")
	case !strings.HasPrefix(template, c.AllowedPrefix):
		r.add(path, fmt.Sprintf("%q does not begin with allowed_prefix %q", template, c.AllowedPrefix), "")
	}
}

func (r *reader) missing(path, why string) { r.add(path, "is missing: "+why, "") }

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
