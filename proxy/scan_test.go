package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// walked is what a walk over an answer's body finds, with its tail.
func walked(key, version int16, body []byte) (*answer, *tail, error) {
	a := &answer{collect: true, delivers: &delivered.Answer{}}
	s := &scanner{p: body}
	if err := a.walk(s, key, version); err != nil {
		return nil, nil, err
	}
	t, err := readTail(key, body[s.at:])
	return a, t, err
}

// verdicts is what our codec reads of a ShareFetch answer: the reply that observers are to get, and the endpoints.
func verdicts(m *codec.ShareFetchResponse) (reply policy.Reply, endpoints []endpoint) {
	reply = policy.Reply{ErrorCode: m.ErrorCode, ErrorMessage: string(m.ErrorMessage), LockTimeoutMs: m.AcquisitionLockTimeoutMs}
	for topic := range m.Responses.All() {
		for p := range topic.Partitions.All() {
			reply.Partitions = append(reply.Partitions, policy.PartitionResult{TopicID: topic.TopicID, Partition: p.PartitionIndex,
				ErrorCode: p.AcknowledgeErrorCode, ErrorMessage: string(p.AcknowledgeErrorMessage)})
		}
	}
	for e := range m.NodeEndpoints.All() {
		endpoints = append(endpoints, endpoint{id: e.NodeID, host: e.Host, port: e.Port, rack: e.Rack})
	}
	return reply, endpoints
}

func sameEndpoints(a, b []endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b endpoint) bool {
		return a.id == b.id && a.port == b.port && bytes.Equal(a.host, b.host) && bytes.Equal(a.rack, b.rack) && (a.rack == nil) == (b.rack == nil)
	})
}

// TestScanShareFetch compares the scanner with our codec, over golden frames and random answers of kmsg's making.
func TestScanShareFetch(t *testing.T) {
	golden := 0
	for _, g := range goldenFrames(t) {
		if g.Key == codec.KeyShareFetch && g.Kind == "response" {
			compareShareFetch(t, g.Version, g.frame[9:])
			golden++
		}
	}
	if golden < 8 {
		t.Errorf("%d golden answers", golden)
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		m := kmsg.NewPtrShareFetchResponse()
		randomize(rnd, reflect.ValueOf(m).Elem(), []addressed{{1, "host", 9092, true}, {-1, "", -1, false}, {0, "h", 1, true}})
		m.SetVersion(int16(rnd.IntN(3)))
		compareShareFetch(t, m.Version, m.AppendTo(nil))
	}
}

func compareShareFetch(t *testing.T, version int16, body []byte) {
	t.Helper()
	var m codec.ShareFetchResponse
	if o, p := m.Decode(body, 0, version); o != codec.Exact {
		t.Fatal(o, p)
	}
	reply, endpoints := verdicts(&m)
	a, tail, err := walked(codec.KeyShareFetch, version, body)
	if err != nil {
		t.Fatalf("v%d %v\n%x", version, err, body)
	}
	if !reflect.DeepEqual(a.reply, reply) || !sameEndpoints(tail.endpoints, endpoints) {
		t.Fatalf("v%d %x\nscanned %+v %v\ndecoded %+v %v", version, body, a.reply, tail.endpoints, reply, endpoints)
	}
	if want := deliveriesOf(&m); a.ranges < maxAnswerRanges && !reflect.DeepEqual(a.delivers.Partitions, want) {
		t.Fatalf("v%d %x\nscanned %+v\ndecoded %+v", version, body, a.delivers.Partitions, want)
	}
}

// deliveriesOf is what our codec reads of a ShareFetch answer that delivers something.
func deliveriesOf(m *codec.ShareFetchResponse) (all []delivered.Delivery) {
	for topic := range m.Responses.All() {
		for p := range topic.Partitions.All() {
			d := delivered.Delivery{Partition: delivered.Partition{Topic: topic.TopicID, Index: p.PartitionIndex}, Records: p.Records}
			if d.Records == nil { // null is no records, as is empty
				d.Records = []byte{}
			}
			for r := range p.AcquiredRecords.All() {
				if len(d.Ranges) < delivered.MaxRanges {
					d.Ranges = append(d.Ranges, delivered.Range{First: r.FirstOffset, Last: r.LastOffset, Count: r.DeliveryCount})
				}
			}
			if len(d.Ranges) > 0 {
				all = append(all, d)
			}
		}
	}
	return all
}

// TestScanAgainstKmsg compares leaders and endpoints of Produce and Fetch answers with what kmsg was given to write.
func TestScanAgainstKmsg(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	all := []addressed{{1, "host", 9092, true}, {-1, "", -1, false}, {0, "h", 1, true}}
	for range 2000 {
		var want []int32
		var endpoints []endpoint
		leader := func(id, epoch int32) {
			if id != -1 {
				want = append(want, id)
			}
		}
		var m kmsg.Response
		if rnd.IntN(2) == 0 {
			p := kmsg.NewPtrProduceResponse()
			randomize(rnd, reflect.ValueOf(p).Elem(), all)
			p.SetVersion(int16(10 + rnd.IntN(4)))
			for _, topic := range p.Topics {
				for _, part := range topic.Partitions {
					leader(part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch)
				}
			}
			for _, b := range p.Brokers {
				endpoints = append(endpoints, endpointOf(b.NodeID, b.Host, b.Port, b.Rack))
			}
			m = p
		} else {
			f := kmsg.NewPtrFetchResponse()
			randomize(rnd, reflect.ValueOf(f).Elem(), all)
			f.SetVersion(int16(16 + rnd.IntN(3)))
			for _, topic := range f.Topics {
				for _, part := range topic.Partitions {
					leader(part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch)
				}
			}
			for _, b := range f.Brokers {
				endpoints = append(endpoints, endpointOf(b.NodeID, b.Host, b.Port, b.Rack))
			}
			m = f
		}
		a, tail, err := walked(m.Key(), m.GetVersion(), m.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		var got []int32
		for _, l := range a.leaders {
			got = append(got, l.id)
		}
		if !slices.Equal(got, want) || !sameEndpoints(tail.endpoints, endpoints) {
			t.Fatalf("leaders %v, want %v; endpoints %v, want %v", got, want, tail.endpoints, endpoints)
		}
	}
}

func endpointOf(id int32, host string, port int32, rack *string) endpoint {
	e := endpoint{id: id, host: []byte(host), port: port}
	if rack != nil {
		e.rack = append([]byte{}, *rack...)
	}
	return e
}

// dribble is a source that gives what a reader gives.
type dribble struct {
	net.Conn
	r io.Reader
}

func (d dribble) Read(p []byte) (int, error)      { return d.r.Read(p) }
func (d dribble) SetReadDeadline(time.Time) error { return nil }

// answered passes what r gives as answers through the response half of a connection, and returns what the client gets.
func answered(s *Server, r io.Reader, owed ...exchange) ([]byte, error) {
	c := stubConn(s)
	for _, x := range owed {
		c.pending.push(x, false)
	}
	var out []byte
	h := &half{src: dribble{r: r}, side: brokerSide, limits: &s.limits}
	h.d = &responses{c: c, h: h}
	h.send = func(p []byte) error { out = append(out, p...); return nil }
	err := h.run()
	return out, err
}

// bigFetch is a Fetch answer that does not fit the buffer, with an endpoint for node 1.
func bigFetch(version int16, records ...int) *kmsg.FetchResponse {
	m := kmsg.NewPtrFetchResponse()
	m.SetVersion(version)
	topic := kmsg.NewFetchResponseTopic()
	for i, n := range records {
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition = int32(i)
		p.RecordBatches = bytes.Repeat([]byte{byte(i + 1)}, n)
		topic.Partitions = append(topic.Partitions, p)
	}
	m.Topics = append(m.Topics, topic)
	e := kmsg.NewFetchResponseBroker()
	e.NodeID, e.Host, e.Port = 1, "b1"+upstreamHosts, 31281
	m.Brokers = append(m.Brokers, e)
	return m
}

// An answer that comes byte by byte is walked like one that comes at once.
func TestByteByByte(t *testing.T) {
	s := stub(t, Config{})
	frame := reply(bigFetch(17, 10, bufferSize, 0, 70), 77)
	tagged := sized(slices.Concat(frame[:8], []byte{1, 100, 3, 'a', 'b', 'c'}, frame[9:])) // a field in the header
	got, err := answered(s, iotest.OneByteReader(bytes.NewReader(tagged)), exchange{correlationID: 77, key: codec.KeyFetch, version: 17, need: needEndpoints})
	if err != nil || len(got) != len(tagged) || !bytes.Equal(got[:14], tagged[:14]) {
		t.Fatalf("%v, %d bytes of %d", err, len(got), len(tagged))
	}
	checkStreamed(t, s, frame, sized(slices.Concat(got[:8], []byte{0}, got[14:])))
	for name, r := range map[string]io.Reader{"bytes": iotest.OneByteReader(bytes.NewReader(frame)), "halves": iotest.HalfReader(bytes.NewReader(frame)), "at once": bytes.NewReader(frame)} {
		got, err := answered(s, r, exchange{correlationID: 77, key: codec.KeyFetch, version: 17, need: needEndpoints})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkStreamed(t, s, frame, got)
	}
}

func checkStreamed(t *testing.T, s *Server, frame, got []byte) {
	t.Helper()
	m := kmsg.NewPtrFetchResponse()
	m.SetVersion(17)
	if len(got) != len(frame) || m.ReadFrom(got[9:]) != nil || bytes.Contains(got, []byte(upstreamHosts)) {
		t.Fatalf("%d bytes became %d; %q", len(frame), len(got), got[len(got)-60:])
	}
	if len(m.Brokers) != 1 || m.Brokers[0].Host != "proxy.test" || m.Brokers[0].Port != s.node(1).port {
		t.Errorf("endpoints %+v", m.Brokers)
	}
}

// What comes after the last topic has to fit the buffer: a longer end cannot be rewritten at equal size, and ends the connection.
func TestStreamedEndTooLong(t *testing.T) {
	s := stub(t, Config{})
	m := bigFetch(17, bufferSize)
	for range 3000 {
		m.Brokers = append(m.Brokers, m.Brokers[0])
	}
	got, err := answered(s, bytes.NewReader(reply(m, 77)), exchange{correlationID: 77, key: codec.KeyFetch, version: 17, need: needEndpoints})
	if !errors.Is(err, errUnread) || bytes.Contains(got, []byte(upstreamHosts)) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}
