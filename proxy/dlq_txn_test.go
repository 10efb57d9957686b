package proxy

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq"
)

// txnRig is a proxy whose dead-letter policy has letters wait for transactions, with a broker that notes what it sees.
type txnRig struct {
	t       *testing.T
	server  *Server
	letters *kfake.Cluster
	state   string

	mu   sync.Mutex
	code int16    // of the answer to EndTxn
	saw  []string // keys, and how many dead letters there were by then
}

func newTxnRig(t *testing.T, src source, onFailure string) *txnRig {
	letters, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "dlq.all"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(letters.Close)
	r := &txnRig{t: t, letters: letters, state: t.TempDir()}
	at, err := json.Marshal(letters.ListenAddrs())
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`{"cluster": {"bootstrap": %s}, "topic": "dlq.all", "transactions": "queue", "budget": "300ms", "on_failure": %s}`,
		at, onFailure)
	p, err := dlq.New(t.Context(), "dlq", []byte(config), dlq.Deps{StateDir: r.state, Transactions: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	r.server = start(t, Config{Upstream: []string{script(t, answering(r.answer))}, TxnKey: keyDraftTxn, TxnArm: ArmAlways,
		Policies: chainOf(t, policy.FailRespond, p), Observers: []policy.Observer{p}}, src)
	return r
}

// answer is the broker.
func (r *txnRig) answer(f []byte) []byte {
	written := r.letters.PartitionInfo("dlq.all", 0).HighWatermark
	r.mu.Lock()
	defer r.mu.Unlock()
	key, id := int16(binary.BigEndian.Uint16(f[4:])), idOf(f, false)
	r.saw = append(r.saw, fmt.Sprintf("%d after %d", key, written))
	if key == codec.KeyEndTxn {
		return endTxnReply(5, id, r.code)
	}
	a := headed(&codec.TxnShareAcknowledgeResponse{})
	binary.BigEndian.PutUint32(a[4:], uint32(id))
	return a
}

// last is the last thing that the broker saw.
func (r *txnRig) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.saw) == 0 {
		return ""
	}
	return r.saw[len(r.saw)-1]
}

// ask sends a request on a connection of its own, and says whether it was answered.
func (r *txnRig) ask(frame []byte) bool {
	client := dial(r.t, r.server)
	defer client.Close()
	client.Write(frame)
	_, err := readFrame(client)
	return err == nil
}

// stage rejects the offsets 5 and 6 in the transaction "t".
func (r *txnRig) stage() {
	r.t.Helper()
	m := codec.TxnShareAcknowledgeRequest{TransactionalID: []byte("t"), GroupID: []byte("g"), MemberID: []byte("m"), ProducerID: 4, ProducerEpoch: 3}
	p := codec.AckPartition{PartitionIndex: 2}
	p.Batches.Append(codec.AckBatch{FirstOffset: 5, LastOffset: 6, Types: []byte{byte(policy.Reject)}})
	topic := codec.AckTopic{TopicID: codec.UUID{1}}
	topic.Partitions.Append(p)
	m.Topics.Append(topic)
	h := codec.RequestHeader{APIKey: keyDraftTxn, CorrelationID: 6, Version: 2}
	if !r.ask(sized(m.Append(h.Append(make([]byte, 4)), 0))) || r.last() != "95 after 0" {
		r.t.Fatalf("the broker saw %v", r.saw)
	}
}

func (r *txnRig) answerWith(code int16) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.code = code
}

// down has the dead-letter cluster refuse all letters.
func (r *txnRig) down() (up func()) {
	return r.letters.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1}).Remove
}

// TestDeadLettersOfTransactions rejects on one connection and ends the transaction on another, as clients do: its coordinator is another broker.
func TestDeadLettersOfTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, src source) {
		t.Run("commit", func(t *testing.T) {
			r := newTxnRig(t, src, `["withhold"]`)
			r.stage()
			if !r.ask(endTxn(5, 7, true)) || r.last() != "26 after 2" {
				t.Errorf("the broker saw %v", r.saw)
			}
		})
		t.Run("abort", func(t *testing.T) {
			r := newTxnRig(t, src, `["withhold"]`)
			r.stage()
			for _, commit := range []bool{false, true} {
				if !r.ask(endTxn(5, 7, commit)) || r.last() != "26 after 0" {
					t.Errorf("the broker saw %v", r.saw)
				}
			}
		})
		t.Run("an abort that is refused", func(t *testing.T) {
			r := newTxnRig(t, src, `["withhold"]`)
			r.stage()
			r.answerWith(kerr.TransactionalIDAuthorizationFailed.Code)
			r.ask(endTxn(5, 7, false))
			if !r.ask(endTxn(5, 7, true)) || r.last() != "26 after 2" {
				t.Errorf("the broker saw %v", r.saw)
			}
		})
		t.Run("spool", func(t *testing.T) {
			r := newTxnRig(t, src, `["spool", "withhold"]`)
			r.down()
			r.stage()
			spooled := 0
			if !r.ask(endTxn(5, 7, true)) || r.last() != "26 after 0" {
				t.Errorf("the broker saw %v", r.saw)
			}
			if _, err := dlq.ReadSpool(dlq.SpoolDir(r.state, "dlq"), func(*dlq.Waiting) { spooled++ }); err != nil || spooled != 2 {
				t.Errorf("%d in the spool, %v", spooled, err)
			}
		})
		t.Run("withhold", func(t *testing.T) {
			r := newTxnRig(t, src, `["withhold"]`)
			up := r.down()
			r.stage()
			if r.ask(endTxn(5, 7, true)) || r.last() != "95 after 0" {
				t.Errorf("the broker saw %v", r.saw)
			}
			up()
			eventually(t, "a commit goes on", func() bool { return r.ask(endTxn(5, 7, true)) })
			if r.last() < "26 after 2" {
				t.Errorf("the broker saw %v", r.saw)
			}
		})
		t.Run("forward", func(t *testing.T) {
			r := newTxnRig(t, src, `["forward"]`)
			r.down()
			r.stage()
			if !r.ask(endTxn(5, 7, true)) || r.last() != "26 after 0" {
				t.Errorf("the broker saw %v", r.saw)
			}
		})
	})
}
