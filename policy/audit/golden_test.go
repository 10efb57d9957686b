package audit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

var update = flag.Bool("update", false, "write the golden lines anew")

// TestGolden compares every kind of line byte by byte.
func TestGolden(t *testing.T) {
	golden(t, "golden.jsonl", goldenOutcomes(t)...)
}

// golden compares the log of outcomes with a file byte by byte.
func golden(t *testing.T, name string, outcomes ...*policy.Outcome) {
	t.Helper()
	var got buffer
	a := start(t, Config{Sinks: []Sink{{Type: Writer, W: &got}}})
	a.Control("listeners", Field{"bootstrap", "127.0.0.1:19092"}, Field{"brokers", map[string]int{"broker-2": 19102}}, Field{"bad", func() {}})
	for _, o := range outcomes {
		a.Observe(o)
	}
	stop(t, a)
	lines := bytes.SplitAfter([]byte(got.String()), []byte("\n"))
	lines[0] = bytes.Replace(lines[0], []byte(`"pid":`+pid()), []byte(`"pid":1`), 1)

	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, bytes.Join(lines, nil), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLines := bytes.SplitAfter(want, []byte("\n"))
	if len(lines) != len(wantLines) {
		t.Errorf("%d lines, want %d", len(lines), len(wantLines))
	}
	for i := range min(len(lines), len(wantLines)) {
		if !bytes.Equal(lines[i], wantLines[i]) {
			t.Errorf("line %d is\n%swant\n%s", i+1, lines[i], wantLines[i])
		}
	}
}

func goldenOutcomes(t *testing.T) []*policy.Outcome {
	accepted := answered(share(t, orders(4, batch(1040, 1047, 1), batch(1048, 1048, 3))), row(ordersID, 4, 0))

	piggyback := answered(share(t, orders(4, batch(0, 3, 1, 1, 2, 3)), part{otherID, 0, orders(0, batch(7, 7, 1)).batches}),
		row(ordersID, 4, 0), row(otherID, 0, 121))
	piggyback.Request.APIKey, piggyback.Request.Carrier = 78, policy.ShareFetch
	piggyback.Reply.Partitions[1].ErrorMessage = "The record state is invalid. \"x\"\n"
	piggyback.Reply.LockTimeoutMs = 0

	session := share(t, orders(4, batch(0, 3, 1)))
	session.Reply.ErrorCode = 122
	session.Request.ClientID, session.Request.MemberID, session.Request.GroupID, session.Request.Software = nil, nil, nil, ""
	session.Request.Principal = policy.Principal{}
	session.Request.Conn.BrokerID, session.Request.Conn.Listener = -1, "bootstrap"

	lost := share(t, orders(4, batch(0, 3, 4)))
	lost.Reply = policy.Reply{State: policy.Lost, Received: noon.Add(time.Second)}
	lost.Request.RenewAck = true

	missing := share(t, orders(4, batch(0, 1<<62, 1)), orders(4, batch(9, 3, 1)))

	tolerated := answered(share(t, orders(4, batch(0, 3, 1))), row(ordersID, 4, 0))
	tolerated.Request.Decode = codec.Tolerated
	tolerated.Request.Problem = &codec.Problem{Reason: "1 bytes left after the body", At: 66}

	txn := answered(share(t, orders(4, batch(0, 3, 1))), row(ordersID, 4, 0))
	txn.Request.APIKey, txn.Request.Carrier, txn.Request.APIVersion, txn.Request.SessionEpoch = 95, policy.TxnShareAcknowledge, 0, 0

	closing := share(t)
	closing.Request.SessionEpoch = -1

	undecodable := share(t)
	undecodable.Kind = policy.Undecodable
	undecodable.Request.Decode = codec.Anomalous
	undecodable.Request.Problem = &codec.Problem{Reason: "short read: 16 bytes wanted, 3 left", At: 41, Field: "Topics[0].TopicId"}
	undecodable.Request.GroupID, undecodable.Request.MemberID = nil, nil
	undecodable.Reply = policy.Reply{State: policy.Lost, Received: noon.Add(time.Millisecond)}

	admin := share(t)
	admin.Kind, admin.Request.APIKey, admin.Request.APIVersion = policy.AdminRequest, codec.KeyAddRaftVoter, 1
	admin.Request.GroupID, admin.Request.MemberID = nil, nil
	admin.Reply.ErrorCode, admin.Reply.ErrorMessage = 126, "The voter is already part of the set of voters."

	gap := &policy.Outcome{Kind: policy.CoverageGap, Request: policy.Request{Conn: testConn()}, Note: "sasl over v0: GSSAPI is relayed unread"}

	return []*policy.Outcome{accepted, piggyback, session, lost, missing, tolerated, txn, closing, undecodable, admin, gap}
}
