package proxy

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// produce is a Produce request with so many bytes that are no records; the broker of the test does not mind.
func produce(id int32, version, acks int16, size int) []byte {
	r := kmsg.NewPtrProduceRequest()
	r.Acks = acks
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = make([]byte, size)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return request(r, version, id)
}

// mixed is the i-th of a stream of requests of all kinds, and whether it is owed an answer.
func mixed(rnd *rand.Rand, id int32) (frame []byte, owed bool) {
	switch rnd.IntN(10) {
	case 0:
		return produce(id, int16(3+rnd.IntN(8)), 0, rnd.IntN(2000)), false
	case 1:
		return produce(id, 11, -1, rnd.IntN(400<<10)), true
	case 2:
		return request(kmsg.NewPtrMetadataRequest(), 12, id), true
	case 3:
		return request(kmsg.NewPtrApiVersionsRequest(), 3, id), true
	case 4:
		return shareAck(id, 3, 1+rnd.IntN(20)), true
	case 5:
		return request(kmsg.NewPtrFetchRequest(), 17, id), true
	case 6:
		f := opaque(id, 30)
		f[4], f[5] = 0x27, 0x11 // key 10001
		return f, true
	case 7:
		return shareAck(id, 4, 4000+rnd.IntN(4000)), true // larger than the buffer
	}
	return opaque(id, rnd.IntN(3000)), true
}

// mixedAnswer is a plausible answer to a mixed request.
func mixedAnswer(frame []byte) []byte {
	key, version, id := int16(frame[4])<<8|int16(frame[5]), int16(frame[7]), idOf(frame, false)
	switch key {
	case codec.KeyProduce:
		if acks, _, _ := produceAcks(frame, version, len(frame)); acks == 0 {
			return nil
		}
	case codec.KeyShareAcknowledge:
		return shareAckReply(id, 0)
	case codec.KeyHeartbeat, 10001:
		return opaqueReply(id, len(frame)%50)
	}
	r := kmsg.ResponseForKey(key)
	r.SetVersion(version)
	if f, ok := r.(*kmsg.FetchResponse); ok {
		p := kmsg.NewFetchResponseTopicPartition()
		p.RecordBatches = make([]byte, 7*len(frame)%300_000)
		topic := kmsg.NewFetchResponseTopic()
		topic.Partitions = append(topic.Partitions, p)
		f.Topics = append(f.Topics, topic)
	}
	return reply(r, id)
}

// TestOrder sends a thousand pipelined requests of mixed kinds: every byte reaches the broker as it was sent, and the answers come in
// order, with the right correlation ids, also behind requests that are owed none.
func TestOrder(t *testing.T) {
	for name, src := range sources {
		for _, limit := range []int{1024, 3} {
			t.Run(fmt.Sprint(name, "/in flight ", limit), func(t *testing.T) { order(t, src, limit) })
		}
	}
}

func order(t *testing.T, src source, limit int) {
	var mu sync.Mutex
	var received []byte
	addr := script(t, answering(func(f []byte) []byte {
		mu.Lock()
		received = append(received, f...)
		mu.Unlock()
		return mixedAnswer(f)
	}))
	seen := new(recorder)
	s := start(t, Config{Upstream: []string{addr}, MaxInFlight: limit, Observers: []policy.Observer{seen}}, src)
	c := dial(t, s)
	rnd := rand.New(rand.NewPCG(1, 2))
	var sent []byte
	var owed []int32
	acks := 0
	for i := range int32(1000) {
		id := i * 7919 // not small, not in steps of one
		f, answered := mixed(rnd, id)
		sent = append(sent, f...)
		if answered {
			owed = append(owed, id)
		}
		if f[5] == byte(codec.KeyShareAcknowledge) {
			acks++
		}
	}
	wrote := make(chan error, 1)
	go func() { _, err := io.Copy(c, bytes.NewReader(sent)); wrote <- err }()
	for i, id := range owed {
		f, err := readFrame(c)
		if err != nil {
			t.Fatalf("answer %d of %d: %v", i, len(owed), err)
		}
		if got := idOf(f, true); got != id {
			t.Fatalf("answer %d: correlation id %d, want %d", i, got, id)
		}
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !bytes.Equal(received, sent) {
		t.Errorf("the broker received %d bytes that differ from the %d sent", len(received), len(sent))
	}
	if got := len(seen.seen()); got != acks {
		t.Errorf("%d outcomes observed, %d acknowledgements sent", got, acks)
	}
	eventually(t, "held bytes given back", func() bool { return s.limits.buffered.Load() == 0 })
}

// TestAnswersPassUnchanged compares what the client gets with what the broker sent, byte for byte, where nothing is to be changed.
func TestAnswersPassUnchanged(t *testing.T) {
	for name, src := range sources {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(3, 4))
			var sent, all []byte
			for i := range int32(300) {
				sent = append(sent, opaque(i, rnd.IntN(100))...)
				all = append(all, opaqueReply(i, 1<<rnd.IntN(21))...)
			}
			addr := script(t, func(c *net.TCPConn) {
				if _, err := io.CopyN(io.Discard, c, int64(len(sent))); err != nil {
					return
				}
				c.Write(all)
			})
			c := dial(t, start(t, Config{Upstream: []string{addr}}, src))
			if _, err := c.Write(sent); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(all))
			if _, err := io.ReadFull(c, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, all) {
				t.Error("the answers changed on their way")
			}
		})
	}
}

// bare is a request of any key and version with a header and nothing else.
func bare(key, version int16) []byte {
	f := opaque(1, 0)
	f[4], f[5], f[6], f[7] = byte(key>>8), byte(key), byte(version>>8), byte(version)
	return f
}

// oneHalf says whether there is a connection of which one half has ended.
func oneHalf(s *Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.left.Load() == 1 {
			return true
		}
	}
	return false
}

// What the proxy refuses ends the connection as it would at a broker, which answers one request after the other: first come the answers to
// the requests before it.
func TestRefusalComesInOrder(t *testing.T) {
	for name, src := range sources {
		t.Run(name, func(t *testing.T) {
			asked, answer := make(chan struct{}), make(chan struct{})
			addr := script(t, answering(func(f []byte) []byte {
				if idOf(f, false) == 1 {
					close(asked)
				}
				select {
				case <-answer:
				case <-t.Context().Done():
				}
				return echo(f)
			}))
			s := start(t, Config{Upstream: []string{addr}}, src)
			c := dial(t, s)
			bad := request(kmsg.NewPtrShareAcknowledgeRequest(), 1, 3)
			bad[7] = 77 // a version that was not offered
			if _, err := c.Write(slices.Concat(opaque(1, 10), opaque(2, 10))); err != nil {
				t.Fatal(err)
			}
			<-asked
			if _, err := c.Write(bad); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the refusal", func() bool { return oneHalf(s) })
			close(answer)
			for id := int32(1); id <= 2; id++ {
				if f, err := readFrame(c); err != nil || idOf(f, true) != id {
					t.Fatalf("in place of answer %d: %x, %v", id, f, err)
				}
			}
			if rest, err := closedBy(c); err != nil || len(rest) > 0 {
				t.Errorf("after the answers: %x, %v", rest, err)
			}
		})
	}
}
