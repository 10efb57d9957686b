package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// withEndpoint is an answer of this key that names one broker, small or larger than the buffer.
func withEndpoint(key, version int16, big bool) []byte {
	host := "b" + upstreamHosts
	var m kmsg.Response
	switch key {
	case codec.KeyMetadata:
		m = &kmsg.MetadataResponse{Brokers: []kmsg.MetadataResponseBroker{{NodeID: 1, Host: host, Port: 31281}}}
		if big {
			name := string(bytes.Repeat([]byte("t"), 200))
			for range 1000 {
				m.(*kmsg.MetadataResponse).Topics = append(m.(*kmsg.MetadataResponse).Topics, kmsg.MetadataResponseTopic{Topic: &name})
			}
		}
	case codec.KeyShareAcknowledge:
		a := &kmsg.ShareAcknowledgeResponse{NodeEndpoints: []kmsg.ShareAcknowledgeResponseNodeEndpoint{{NodeID: 1, Host: host, Port: 31281}}}
		if big {
			a.Topics = []kmsg.ShareAcknowledgeResponseTopic{{Partitions: make([]kmsg.ShareAcknowledgeResponseTopicPartition, 9000)}}
		}
		m = a
	case codec.KeyShareFetch, codec.KeyFetch, codec.KeyProduce:
		if big {
			m = large(rand.New(rand.NewPCG(1, 1)), key, version, []string{host})
			break
		}
		m = large(rand.New(rand.NewPCG(1, 1)), key, version, []string{host})
		switch m := m.(type) {
		case *kmsg.ShareFetchResponse:
			m.Topics = nil
		case *kmsg.FetchResponse:
			m.Topics = nil
		case *kmsg.ProduceResponse:
			m.Topics = nil
		}
	}
	m.SetVersion(version)
	return reply(m, 9)
}

// TestCutAnswers ends the broker's connection inside an answer: no address in the part that came gets to the client, also none that it
// could not parse, and the acknowledgements that it answered have an unknown verdict.
func TestCutAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for _, v := range []struct{ key, version int16 }{{3, 12}, {79, 2}, {78, 2}, {1, 18}, {0, 12}} {
			for _, big := range []bool{false, true} {
				frame := withEndpoint(v.key, v.version, big)
				for _, n := range []int{5, 9, len(frame) / 2, len(frame) - 1} {
					what := fmt.Sprint(codec.Name(v.key), " cut after ", n, " bytes of ", len(frame))
					seen := new(recorder)
					addr := script(t, func(c *net.TCPConn) {
						readFrame(c)
						c.Write(frame[:n])
					})
					s := start(t, Config{Upstream: []string{addr}, Observers: []policy.Observer{seen}}, src)
					c := dial(t, s)
					c.Write(requestFor(v.key, v.version))
					p, err := closedBy(c)
					if err != nil || len(p) > n || bytes.Contains(p, []byte("upstream")) {
						t.Errorf("%s: %v, the client got %d bytes that end with %q", what, err, len(p), p[max(0, len(p)-60):])
					}
					if v.key == codec.KeyShareFetch || v.key == codec.KeyShareAcknowledge {
						eventually(t, "an outcome of "+what, func() bool { return len(seen.seen()) > 0 })
						if o := seen.seen(); len(o) != 1 || o[0].Reply.State != policy.Lost {
							t.Errorf("%s: %d outcomes, %+v", what, len(o), o[0].Reply)
						}
					}
					eventually(t, "memory given back after "+what, func() bool { return s.limits.buffered.Load() == 0 })
				}
			}
		}
	})
}
