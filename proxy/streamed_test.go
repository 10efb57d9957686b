package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// recordSizes are around every border there is: nothing, the buffer, where splicing starts, and well beyond.
var recordSizes = []int{0, 1, bufferSize - 1, bufferSize, bufferSize + 1, relayMin - 1, relayMin, relayMin + 1, 1<<20 + 7, 3}

// noise is what records are cut from.
var noise = func() []byte {
	p := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{1}).Read(p)
	return p
}()

func randomRecords(rnd *rand.Rand, n int) []byte {
	at := rnd.IntN(len(noise) - n)
	return noise[at : at+n]
}

// large makes an answer of about 2 MB, with an endpoint for each of these hosts.
func large(rnd *rand.Rand, key, version int16, hosts []string) kmsg.Response {
	rack := "rack"
	sizes := slices.Clone(recordSizes)
	rnd.Shuffle(len(sizes), func(i, j int) { sizes[i], sizes[j] = sizes[j], sizes[i] })
	switch key {
	case codec.KeyFetch:
		m := kmsg.NewPtrFetchResponse()
		for i, n := range sizes {
			topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
			topic.TopicID[0], p.Partition, p.RecordBatches = byte(i/4), int32(i), randomRecords(rnd, n)
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 1, 2
			topic.Partitions = append(topic.Partitions, p)
			m.Topics = append(m.Topics, topic)
		}
		for i, h := range hosts {
			m.Brokers = append(m.Brokers, kmsg.FetchResponseBroker{NodeID: int32(i), Host: h, Port: int32(31281 + i), Rack: &rack})
		}
		m.SetVersion(version)
		return m
	case codec.KeyShareFetch:
		m := kmsg.NewPtrShareFetchResponse()
		for i, n := range sizes {
			topic, p := kmsg.NewShareFetchResponseTopic(), kmsg.NewShareFetchResponseTopicPartition()
			topic.TopicID[0], p.Partition, p.Records, p.AcknowledgeErrorCode = 1, int32(i), randomRecords(rnd, n), int16(120+i)
			p.AcquiredRecords = append(p.AcquiredRecords, kmsg.ShareFetchResponseTopicPartitionAcquiredRecord{FirstOffset: 5, LastOffset: 4, DeliveryCount: 1})
			topic.Partitions = append(topic.Partitions, p)
			m.Topics = append(m.Topics, topic)
		}
		for i, h := range hosts {
			m.NodeEndpoints = append(m.NodeEndpoints, kmsg.ShareFetchResponseNodeEndpoint{NodeID: int32(i), Host: h, Port: int32(31281 + i), Rack: &rack})
		}
		m.SetVersion(version)
		return m
	}
	m := kmsg.NewPtrProduceResponse()
	topic := kmsg.NewProduceResponseTopic()
	for i := range 100 {
		p := kmsg.NewProduceResponseTopicPartition()
		text := strings.Repeat("e", rnd.IntN(32767))
		p.Partition, p.ErrorCode, p.ErrorMessage = int32(i), 6, &text
		topic.Partitions = append(topic.Partitions, p)
	}
	m.Topics = append(m.Topics, topic)
	for i, h := range hosts {
		m.Brokers = append(m.Brokers, kmsg.ProduceResponseBroker{NodeID: int32(i), Host: h, Port: int32(31281 + i), Rack: &rack})
	}
	m.SetVersion(version)
	return m
}

// in is how a broker hands out an answer.
var in = map[string]func(c *net.TCPConn, p []byte){
	"one write": func(c *net.TCPConn, p []byte) { c.Write(p) },
	"small writes at the borders": func(c *net.TCPConn, p []byte) {
		for i, b := range p {
			if i < 30 || i > len(p)-200 {
				c.Write([]byte{b})
			} else if i == 30 {
				c.Write(p[30 : len(p)-199])
			}
		}
	},
	"random writes": func(c *net.TCPConn, p []byte) {
		for rnd := rand.New(rand.NewPCG(1, uint64(len(p)))); len(p) > 0; {
			n := min(len(p), 1+rnd.IntN(100_000))
			c.Write(p[:n])
			p = p[n:]
		}
	},
}

// asked is the request that an answer of this key and version belongs to.
func asked(key, version int16, id int32) []byte {
	if key == codec.KeyShareFetch {
		r := kmsg.NewPtrShareFetchRequest()
		group, member := "g", "m"
		r.GroupID, r.MemberID, r.ShareSessionEpoch = &group, &member, 3
		r.Topics = []kmsg.ShareFetchRequestTopic{{TopicID: [16]byte{1}, Partitions: []kmsg.ShareFetchRequestTopicPartition{{AcknowledgementBatches: []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{
			{FirstOffset: 1, LastOffset: 1, AcknowledgeTypes: []int8{1}}}}}}}
		return request(r, version, id)
	}
	if key == codec.KeyProduce {
		return produce(id, min(version, 12), 1, 10)
	}
	return request(kmsg.NewPtrFetchRequest(), version, id)
}

// TestStreamed takes answers larger than the buffer through a server, with endpoints that fit and endpoints that do not. Records stay
// as they are, the size stays, the addresses go, and the observers get the verdicts.
func TestStreamed(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		for name, write := range in {
			answers := make(chan []byte, 1)
			seen := new(recorder)
			addr := script(t, func(c *net.TCPConn) {
				for {
					f, err := readFrame(c)
					if err != nil {
						return
					}
					a := <-answers
					copy(a[4:8], f[8:12])
					write(c, a)
				}
			})
			s := start(t, Config{Upstream: []string{addr}, Observers: []policy.Observer{seen}}, src)
			c := dial(t, s)
			rnd := rand.New(rand.NewPCG(11, 12))
			for _, v := range []struct{ key, version int16 }{{0, 10}, {0, 12}, {1, 16}, {1, 18}, {78, 0}, {78, 1}, {78, 2}} {
				for _, hosts := range [][]string{nil, {"long" + upstreamHosts}, {"b" + upstreamHosts, "c" + upstreamHosts, "d" + upstreamHosts}, {"s"}} {
					m := large(rnd, v.key, v.version, hosts)
					frame := reply(m, 0)
					answers <- slices.Clone(frame)
					c.SetDeadline(time.Now().Add(time.Minute))
					c.Write(asked(v.key, v.version, 9))
					got, err := readFrame(c)
					if err != nil {
						t.Fatal(name, v, hosts, err)
					}
					checkLarge(t, s, fmt.Sprint(name, v, hosts), frame, got, m, hosts)
				}
			}
			eventually(t, "12 outcomes", func() bool { return len(seen.seen()) == 12 })
			for _, o := range seen.seen() {
				checkVerdicts(t, o)
			}
		}
	})
}

// checkLarge compares an answer that streamed with what the broker sent.
func checkLarge(t *testing.T, s *Server, what string, frame, got []byte, m kmsg.Response, hosts []string) {
	t.Helper()
	again := kmsg.ResponseForKey(m.Key())
	again.SetVersion(m.GetVersion())
	if err := again.ReadFrom(got[9:]); err != nil || len(got) != len(frame) || idOf(got, true) != 9 {
		t.Fatalf("%s: %v, %d bytes became %d", what, err, len(frame), len(got))
	}
	if bytes.Contains(got, []byte(upstreamHosts)) || len(hosts) > 0 && bytes.Contains(got[len(got)-300:], []byte{0, 0, 0x7a, 0x31}) {
		t.Fatalf("%s: an upstream address got through: %q", what, got[len(got)-300:])
	}
	type node struct {
		id, port int32
		host     string
		rack     string
	}
	var nodes []node
	cut := func(r kmsg.Response) {
		nodes = nil
		switch r := r.(type) {
		case *kmsg.FetchResponse:
			for _, b := range r.Brokers {
				nodes = append(nodes, node{b.NodeID, b.Port, b.Host, *b.Rack})
			}
			r.Brokers, r.UnknownTags = nil, kmsg.Tags{}
		case *kmsg.ProduceResponse:
			for _, b := range r.Brokers {
				nodes = append(nodes, node{b.NodeID, b.Port, b.Host, *b.Rack})
			}
			r.Brokers, r.UnknownTags = nil, kmsg.Tags{}
		case *kmsg.ShareFetchResponse:
			for _, b := range r.NodeEndpoints {
				nodes = append(nodes, node{b.NodeID, b.Port, b.Host, *b.Rack})
			}
			r.NodeEndpoints, r.UnknownTags = nil, kmsg.Tags{}
		}
	}
	cut(m)
	cut(again)
	if !bytes.Equal(m.AppendTo(nil), again.AppendTo(nil)) {
		t.Fatalf("%s: more than the endpoints changed", what)
	}
	if len(hosts) == 1 && hosts[0] == "s" { // ours takes more bytes than it did
		hosts = nil
	}
	if len(nodes) != len(hosts) {
		t.Fatalf("%s: endpoints %v", what, nodes)
	}
	for i, n := range nodes {
		if want := (node{int32(i), s.node(int32(i)).port, "127.0.0.1", "rack"}); n != want {
			t.Errorf("%s: endpoint %v, want %v", what, n, want)
		}
	}
}

func checkVerdicts(t *testing.T, o *policy.Outcome) {
	t.Helper()
	if o.Reply.State != policy.Answered || len(o.Reply.Partitions) != len(recordSizes) || o.Request.Carrier != policy.ShareFetch {
		t.Fatalf("%+v", o.Reply)
	}
	for i, p := range o.Reply.Partitions {
		if p.Partition != int32(i) || p.ErrorCode != int16(120+i) || p.TopicID != (codec.UUID{1}) {
			t.Errorf("%+v", p)
		}
	}
}

// TestUnreadAnswers: an answer that may carry addresses and cannot be read ends the connection, whether it is held or streams, and
// nothing of it that may hold an address gets to the client.
func TestUnreadAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		rnd := rand.New(rand.NewPCG(13, 14))
		for _, v := range []struct{ key, version int16 }{{3, 12}, {10, 6}, {60, 2}, {0, 12}, {1, 18}, {78, 2}, {79, 2}} {
			var frame []byte
			if streams(v.key) {
				frame = reply(large(rnd, v.key, v.version, []string{"b" + upstreamHosts}), 9)
			} else {
				m := kmsg.ResponseForKey(v.key)
				m.SetVersion(v.version)
				frame = reply(m, 9)
			}
			frame = sized(append(frame, "b"+upstreamHosts...)) // bytes after the body
			if v.key == codec.KeyShareAcknowledge {
				frame[len(frame)-len("b"+upstreamHosts)-1] = 200 // as many tagged fields
			}
			seen := new(recorder)
			s := start(t, Config{Log: zerolog.New(zerolog.NewTestWriter(t)), Upstream: []string{script(t, answering(func([]byte) []byte { return frame }))}, Observers: []policy.Observer{seen}}, src)
			c := dial(t, s)
			c.Write(requestFor(v.key, v.version))
			p, err := closedBy(c)
			if err != nil || bytes.Contains(p, []byte(upstreamHosts)) {
				t.Errorf("%v: %v, %d bytes, %q", v, err, len(p), p[max(0, len(p)-50):])
			}
			eventually(t, fmt.Sprint("the counter of ", v), func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("unreadable_answer")) == 1 })
			for _, o := range seen.seen() {
				if o.Reply.State != policy.Unreadable {
					t.Errorf("%v: %+v", v, o.Reply)
				}
			}
			if n := len(seen.seen()); n != 1 && (v.key == 78 || v.key == 79) {
				t.Errorf("%v: %d outcomes", v, n)
			}
		}
	})
}

func requestFor(key, version int16) []byte {
	switch key {
	case codec.KeyProduce, codec.KeyFetch, codec.KeyShareFetch:
		return asked(key, version, 9)
	case codec.KeyShareAcknowledge:
		f := shareAck(9, 1, 1)
		r := kmsg.NewPtrShareAcknowledgeRequest()
		r.SetVersion(1)
		r.ReadFrom(f[4+8+2+4+1:])
		return request(r, version, 9)
	}
	return request(kmsg.RequestForKey(key), version, 9)
}
