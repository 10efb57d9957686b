package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/golden"
)

// Topic is a topic of the golden requests, and what Audit expects it to be called.
var Topic = codec.UUID{0x55, 0x0e, 0x84, 0x00, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0x00, 0x00}

// TopicName names Topic "orders", and no other.
func TopicName(id codec.UUID) (string, bool) { return "orders", id == Topic }

// Audit tests the audit log that open makes of a configuration, as JSON. It is to have the names of TopicName. Its log is read once it is closed.
func Audit(t *testing.T, open func(t *testing.T, config string) (policy.Observer, io.Closer, error)) {
	t.Run("lines", func(t *testing.T) { auditLines(t, open) })
	t.Run("mistakes", func(t *testing.T) { auditMistakes(t, open) })
}

func auditLines(t *testing.T, open func(t *testing.T, config string) (policy.Observer, io.Closer, error)) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	o, c, err := open(t, fmt.Sprintf(`{"sinks": [{"type": "file", "path": %q}]}`, path))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range golden.Requests() {
		out := policy.NewOutcome(policy.Acknowledgement, nil)
		frame := append(out.Request.Frame, r.Request.Frame...)
		out.Request, out.Reply = *r.Request, reply(r.Request)
		out.Request.Frame = frame
		o.Observe(out)
		out.Release()
	}
	o.Observe(clientGone())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := summaries(t, string(text))
	want := []string{
		"audit.control start",
		"share.ack share_fetch orders/3 exact 150382-150382 accept, 150383-150383 reject: accepted",
		"share.ack share_fetch orders/3 exact 150384-150384 renew: accepted",
		"share.ack share_acknowledge /0 exact 0-0 gap: refused",
		"share.ack share_acknowledge orders/3 exact 150382-150391 reject: accepted",
		"share.ack share_acknowledge orders/0 exact 100-101 accept, 102-102 gap, 103-103 release, 104-104 reject, 105-105 accept, 110-110 reject: refused",
		"share.ack share_acknowledge orders/7 exact 4294967296-4294967299 gap: refused",
		"share.ack share_acknowledge /2 exact 0-0 accept: refused",
		"share.session share_acknowledge /0 exact : accepted",
		"share.ack share_acknowledge orders/3 exact 150382-150382 renew, 150383-150383 accept, 150384-150384 renew, 150385-150385 reject: accepted",
		"share.ack share_acknowledge orders/3 exact 10-20 : accepted",
		"share.ack share_acknowledge orders/3 exact 150382-150382 reject: accepted",
		"share.ack share_acknowledge orders/3 tolerated 150382-150391 reject: accepted",
		"share.ack share_fetch orders/3 exact 150382-150382 accept, 150383-150383 reject: not_sent connection_ended",
		"audit.control stop",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the log is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// clientGone is the first golden request, whose client left while a policy was asked: no policy failed, and none closed the connection.
func clientGone() *policy.Outcome {
	r := golden.Requests()[0].Request
	return &policy.Outcome{Request: *r, Reply: policy.Reply{State: policy.Lost, Received: r.Received.Add(time.Millisecond)},
		Decision: &policy.Decision{Close: policy.CloseBefore, Gone: true,
			Trail: []policy.Step{{Policy: "slow", Err: errors.New("the request was given up"), Failed: policy.FailClose}}}}
}

// reply accepts what is asked of partition 3, and refuses the rest.
func reply(r *policy.Request) policy.Reply {
	reply := policy.Reply{State: policy.Answered, Received: r.Received.Add(3 * time.Millisecond)}
	for topic := range r.Topics.All() {
		for p := range topic.Partitions.All() {
			result := policy.PartitionResult{TopicID: topic.TopicID, Partition: p.PartitionIndex}
			if p.PartitionIndex != 3 {
				result.ErrorCode = 121
			}
			reply.Partitions = append(reply.Partitions, result)
		}
	}
	return reply
}

// summaries are the parts of the lines that are the same in every run.
func summaries(t *testing.T, log string) (all []string) {
	for line := range strings.Lines(log) {
		var m struct {
			Type    string
			Control struct{ Kind string }
			Target  struct {
				Topic     string
				Partition int
			}
			Request struct{ Carrier, Decode string }
			Ack     struct {
				Asked []struct {
					First, Last int64
					Type        string
				}
			}
			Verdict struct{ State, Reason string }
			Policy  []struct{ Action string }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m.Control.Kind != "" {
			all = append(all, m.Type+" "+m.Control.Kind)
			continue
		}
		var asked []string
		for _, a := range m.Ack.Asked {
			asked = append(asked, fmt.Sprintf("%d-%d %s", a.First, a.Last, a.Type))
		}
		did := []string{m.Verdict.State, m.Verdict.Reason}
		for _, a := range m.Policy {
			did = append(did, a.Action)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s/%d %s %s: %s", m.Type, m.Request.Carrier, m.Target.Topic, m.Target.Partition,
			m.Request.Decode, strings.Join(asked, ", "), strings.Join(did, " "))))
	}
	return all
}

func auditMistakes(t *testing.T, open func(t *testing.T, config string) (policy.Observer, io.Closer, error)) {
	for config, want := range map[string]string{
		``: "the audit log has no sink (write sinks: [{type: file, path: /var/log/ackproxy/more.jsonl}])",
		`{"sinks": [{"type": "file"}], "sink": 1}`:                 "sink: unknown key (the keys here are sinks)\nsinks[0]: the file sink has no path",
		`{"sinks": [{"type": "kafka"}]}`:                           "sinks[0].type: kafka is not built yet (write stdout or file)",
		`{"sinks": [{"type": "stdout"}]}`:                          "sinks[0].type: standard output is somebody else's here (write {type: file, path: …})",
		`{"sinks": [{"type": "file", "path": "/nowhere/at/all"}]}`: "no such file or directory",
	} {
		if _, c, err := open(t, config); err == nil {
			t.Errorf("%s is accepted", config)
			c.Close()
		} else if !strings.Contains(plain(err), plain(fmt.Errorf("%s", want))) {
			t.Errorf("%s: %v\nlacks %s", config, err, want)
		}
	}
}

// plain is an error on one line: a plugin's is logged as such.
func plain(err error) string {
	return strings.NewReplacer("\n", " ", "\uFFFD", " ").Replace(err.Error())
}
