package proxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// tap is a connection whose frames are looked at in both directions. It is the client's end or the broker's, where answers may be
// changed before they go out.
type tap struct {
	net.Conn
	mu       sync.Mutex
	asks     []byte   // of requests, what is not a whole frame yet
	answers  []byte   // of answers, likewise
	asked    [][]byte // requests without their answer, oldest first
	answered func(ask, answer []byte) []byte
	broker   bool
}

// whole takes the complete frames off the start of p.
func whole(p *[]byte) (frames [][]byte) {
	for len(*p) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(*p))
		if len(*p) < n {
			break
		}
		frames = append(frames, (*p)[:n:n])
		*p = (*p)[n:]
	}
	return frames
}

func (t *tap) requests(p []byte) {
	t.asks = append(t.asks, p...)
	t.asked = append(t.asked, whole(&t.asks)...)
}

func (t *tap) replies(p []byte) (out []byte) {
	t.answers = append(t.answers, p...)
	for _, f := range whole(&t.answers) {
		out = append(out, t.answered(t.asked[0], f)...)
		t.asked = t.asked[1:]
	}
	return out
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broker {
		t.requests(p[:n])
	} else {
		t.replies(slices.Clone(p[:n]))
	}
	return n, err
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	if !t.broker {
		t.requests(p)
		t.mu.Unlock()
		return t.Conn.Write(p)
	}
	out := t.replies(p)
	t.mu.Unlock()
	_, err := t.Conn.Write(out)
	return len(p), err
}

// hinting is a listener of a broker whose refusals to acknowledge name all brokers' addresses, as its other answers do by themselves.
// It counts the answers with addresses, by key.
type hinting struct {
	net.Listener
	cluster *atomic.Pointer[kfake.Cluster]
	hints   *[100]atomic.Int32
}

func (h hinting) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tap{Conn: c, broker: true, answered: h.hint}, nil
}

func (h hinting) hint(ask, answer []byte) []byte {
	key, version := int16(ask[5]), int16(ask[7])
	if ask[4] != 0 || carriesEndpoints(key, version) == 0 {
		return answer
	}
	m := kmsg.ResponseForKey(key)
	m.SetVersion(version)
	if m.IsFlexible() && m.ReadFrom(answer[9:]) != nil || !m.IsFlexible() {
		return answer
	}
	named := 0
	switch m := m.(type) {
	case *kmsg.ProduceResponse:
		named = len(m.Brokers)
	case *kmsg.FetchResponse:
		named = len(m.Brokers)
	case *kmsg.ShareFetchResponse:
		named = len(m.NodeEndpoints)
	case *kmsg.ShareAcknowledgeResponse:
		for _, topic := range m.Topics {
			for _, p := range topic.Partitions {
				named += int(max(0, min(p.CurrentLeader.LeaderEpoch, 1)))
			}
		}
		if named > 0 {
			for id, addr := range h.cluster.Load().ListenAddrs() {
				to, _ := net.ResolveTCPAddr("tcp", addr)
				m.NodeEndpoints = append(m.NodeEndpoints, kmsg.ShareAcknowledgeResponseNodeEndpoint{NodeID: int32(id), Host: "127.0.0.1", Port: int32(to.Port)})
			}
			answer = reply(m, idOf(answer, true))
		}
	}
	if named > 0 {
		h.hints[key].Add(1)
	}
	return answer
}

// acknowledged collects, on the clients' side of the wire, each offset that was acknowledged, and each of which the answer says so.
type acknowledged struct {
	mu           sync.Mutex
	sent, agreed map[string]int
}

func (a *acknowledged) answered(ask, answer []byte) []byte {
	key, version := int16(ask[5]), int16(ask[7])
	if ask[4] != 0 || key != codec.KeyShareFetch && key != codec.KeyShareAcknowledge {
		return nil
	}
	_, body, _, _ := codec.DecodeRequestHeader(ask, 0)
	var req policy.Request
	new(scratch).decode(&req, (*Server)(nil).carrier(key), ask, body, version)
	codes := map[string]int16{}
	r := kmsg.ResponseForKey(key)
	r.SetVersion(version)
	if err := r.ReadFrom(answer[9:]); err != nil {
		panic(err)
	}
	switch r := r.(type) {
	case *kmsg.ShareFetchResponse:
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				codes[fmt.Sprint(codec.UUID(topic.TopicID), p.Partition)] = p.AcknowledgeErrorCode + r.ErrorCode
			}
		}
	case *kmsg.ShareAcknowledgeResponse:
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				codes[fmt.Sprint(codec.UUID(topic.TopicID), p.Partition)] = p.ErrorCode + r.ErrorCode
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	tally(&req, codes, a.sent, a.agreed)
	return nil
}

// tally adds the offsets of a request to sent, and those of partitions with code 0 to agreed.
func tally(req *policy.Request, codes map[string]int16, sent, agreed map[string]int) {
	for topic := range req.Topics.All() {
		for part := range topic.Partitions.All() {
			where := fmt.Sprint(topic.TopicID, part.PartitionIndex)
			for b := range part.Batches.All() {
				for off := b.FirstOffset; off <= b.LastOffset; off++ {
					how := fmt.Sprint(where, " ", off, " ", b.Types[min(int(off-b.FirstOffset), len(b.Types)-1)])
					sent[how]++
					if code, ok := codes[where]; ok && code == 0 {
						agreed[how]++
					}
				}
			}
		}
	}
}

// TestLeaderMoves moves leaders a hundred times under load. Clients dial nothing but the proxy, and everything that they were told is
// acknowledged was observed.
func TestLeaderMoves(t *testing.T) { leaderMoves(t, 100, nil) }

// TestLeaderMovesMapped is the same where a policy has a name for each broker: clients dial no other.
func TestLeaderMovesMapped(t *testing.T) {
	leaderMoves(t, 20, members(mapping{waits: true, budget: 20 * time.Second, table: func(context.Context, *policy.Client, []policy.Node) (policy.Table, error) {
		return policy.Table{Host: "{id}.zone"}, nil
	}}))
}

func leaderMoves(t *testing.T, moves int, endpoints []policy.EndpointMember) {
	const partitions = 6
	var kp atomic.Pointer[kfake.Cluster]
	var hints [100]atomic.Int32
	k, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(partitions, "orders"), kfake.ListenFn(func(network, addr string) (net.Listener, error) {
		ln, err := net.Listen(network, addr)
		return hinting{ln, &kp, &hints}, err
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	kp.Store(k)
	seen := new(recorder)
	s := start(t, Config{Upstream: k.ListenAddrs(), Observers: []policy.Observer{seen}, Endpoints: endpoints, StateDir: t.TempDir()}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var dialled sync.Map
	wire := &acknowledged{sent: map[string]int{}, agreed: map[string]int{}}
	common := []kgo.Opt{kgo.SeedBrokers(s.Addr()), kgo.MetadataMinAge(50 * time.Millisecond), kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Store(addr, true)
		if host, port, err := net.SplitHostPort(addr); err == nil && strings.HasSuffix(host, ".zone") {
			addr = net.JoinHostPort("127.0.0.1", port) // as a name server would say
		}
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &tap{Conn: c, answered: wire.answered}, nil
	})}
	var settled atomic.Int64
	work, stop := loadOn(ctx, t, common, &settled)
	rnd := rand.New(rand.NewPCG(15, 16))
	hinted := func() bool {
		return hints[codec.KeyProduce].Load() > 0 && hints[codec.KeyFetch].Load() > 0 && hints[codec.KeyShareFetch].Load() > 0 && hints[codec.KeyShareAcknowledge].Load() > 0
	}
	moved := 0
	for ; moved < moves || !hinted(); moved++ {
		if err := k.MoveTopicPartition("orders", rnd.Int32N(partitions), rnd.Int32N(3)); err != nil {
			t.Fatal(err)
		}
		before := settled.Load()
		eventually(t, fmt.Sprint("20 records after move ", moved), func() bool { return settled.Load() >= before+20 })
	}
	stop()
	work.Wait()
	t.Logf("%d moves, %d records, answers with addresses: Produce %d, Fetch %d, ShareFetch %d, ShareAcknowledge %d", moved, settled.Load(),
		hints[0].Load(), hints[1].Load(), hints[78].Load(), hints[79].Load())
	ours := map[string]bool{}
	for _, l := range s.snapshot() {
		addr := l.ln.Addr().String()
		if endpoints != nil && l.node != bootstrapNode {
			addr = fmt.Sprintf("%d.zone:%d", l.node, l.port)
		}
		ours[addr] = true
	}
	dialled.Range(func(addr, _ any) bool {
		if !ours[addr.(string)] {
			t.Errorf("a client dialled %s", addr)
		}
		return true
	})
	compareTallies(t, wire, seen, 10*moves) // 20 were settled after each move, some of them while nobody may have been told
}

func compareTallies(t *testing.T, wire *acknowledged, seen *recorder, least int) {
	observed := &acknowledged{sent: map[string]int{}, agreed: map[string]int{}}
	for _, o := range seen.seen() {
		codes := map[string]int16{}
		if o.Reply.State == policy.Answered {
			for _, p := range o.Reply.Partitions {
				codes[fmt.Sprint(p.TopicID, p.Partition)] = p.ErrorCode + o.Reply.ErrorCode
			}
		}
		tally(&o.Request, codes, observed.sent, observed.agreed)
	}
	if len(wire.agreed) < least {
		t.Errorf("%d records acknowledged", len(wire.agreed))
	}
	for how, n := range wire.agreed {
		if observed.agreed[how] < n {
			t.Errorf("acknowledged %d times, observed %d times: %s", n, observed.agreed[how], how)
		}
	}
	for how, n := range wire.sent {
		if observed.sent[how] < n {
			t.Errorf("sent %d times, observed %d times: %s", n, observed.sent[how], how)
		}
	}
	t.Logf("%d records acknowledged on the wire, %d observed", len(wire.agreed), len(observed.agreed))
}
