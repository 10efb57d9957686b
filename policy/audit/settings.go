package audit

import (
	"fmt"

	"github.com/ackproxy/ackproxy/policy/internal/settings"
)

// ReadConfig reads the configuration of an audit log that is a policy: {"sinks": [{"type": "file", "path": "…"}]}, the grammar of the
// section audit. Every mistake is a *policy.ConfigError.
func ReadConfig(config []byte) ([]Sink, error) {
	var c struct {
		Sinks []struct {
			Type string `json:"type"`
			Path string `json:"path"`
		} `json:"sinks"`
	}
	m := settings.Read(config, &c)
	if len(c.Sinks) == 0 && m.Err() == nil {
		m.Add("", "the audit log has no sink", "write sinks: [{type: file, path: /var/log/ackproxy/more.jsonl}]")
	}
	var sinks []Sink
	for i, s := range c.Sinks {
		key := fmt.Sprintf("sinks[%d]", i)
		switch {
		case m.Has(key):
		case s.Type == "kafka":
			m.Add(key+".type", "kafka is not built yet", "write stdout or file")
		case s.Type != Stdout && s.Type != File:
			m.Add(key+".type", fmt.Sprintf("%q is no type of sink", s.Type), "write stdout or file")
		case s.Type == File && s.Path == "":
			m.Add(key, "the file sink has no path", "write {type: file, path: /var/log/ackproxy/more.jsonl}")
		case s.Type == Stdout && s.Path != "":
			m.Add(key+".path", "stdout has no path", "write {type: stdout}, or {type: file, path: …}")
		default:
			sinks = append(sinks, Sink{Type: s.Type, Path: s.Path})
		}
	}
	if err := m.Err(); err != nil {
		return nil, err
	}
	return sinks, nil
}
