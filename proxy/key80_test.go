package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// voterBroker answers ApiVersions with this level of share.version, AddRaftVoter with error 104, and, where it serves the proposal,
// TxnShareAcknowledge on any key with an answer that names node 1; else it closes the connection, as stock brokers do.
func voterBroker(level int16, serves bool) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		for {
			f, err := readFrame(c)
			if err != nil {
				return
			}
			id, key, version := idOf(f, false), int16(f[4])<<8|int16(f[5]), int16(f[7])
			_, body, _, _ := codec.DecodeRequestHeader(f, key)
			var voter codec.AddRaftVoterRequest
			var a []byte
			switch o, _ := voter.Decode(f[body:], body, version); {
			case key == codec.KeyApiVersions:
				a = reply(apiVersions(version, level), id)
			case key == codec.KeyAddRaftVoter && (o == codec.Exact || o == codec.Tolerated):
				m := kmsg.NewPtrAddRaftVoterResponse()
				m.SetVersion(version)
				m.ErrorCode = 104
				a = reply(m, id)
			case serves:
				a = headed(txnAnswer([]addressed{{1, "b1" + upstreamHosts, 31281, true}}))
				binary.BigEndian.PutUint32(a[4:], uint32(id))
			default:
				return
			}
			c.Write(a)
		}
	}
}

// named is a golden frame, to another key where one is given.
func named(t *testing.T, name string, key ...int16) []byte {
	t.Helper()
	for _, g := range goldenFrames(t) {
		if g.Name == name {
			for _, k := range key {
				binary.BigEndian.PutUint16(g.frame[4:], uint16(k))
			}
			return g.frame
		}
	}
	t.Fatal("no golden frame ", name)
	return nil
}

// TestKey80 sends what may come on the key of AddRaftVoter to brokers that are armed for TxnShareAcknowledge and to others, and looks at
// what the observers get, and at the answers.
func TestKey80(t *testing.T) {
	txn, voter0, voter1 := named(t, "txn_share_ack_req_v0_key80"), named(t, "add_raft_voter_req_v0"), named(t, "add_raft_voter_req_v1")
	trailing := sized(append(slices.Clone(voter1), 0))
	txn1 := slices.Clone(txn)
	txn1[7] = 1
	empty := codec.TxnShareAcknowledgeRequest{GroupID: []byte("g"), MemberID: []byte("m")}
	none := sized(empty.Append((&codec.RequestHeader{APIKey: 80, CorrelationID: 5, Version: 2}).Append(make([]byte, 4)), 0))
	type seen struct {
		kind    policy.Kind
		carrier policy.Carrier
		decode  codec.Outcome
		state   policy.ReplyState
		code    int16
	}
	admin := func(o codec.Outcome) *seen { return &seen{kind: policy.AdminRequest, decode: o, code: 104} }
	ack := &seen{kind: policy.Acknowledgement, carrier: policy.TxnShareAcknowledge}
	unread := func(state policy.ReplyState) *seen {
		return &seen{kind: policy.Undecodable, carrier: policy.TxnShareAcknowledge, decode: codec.Anomalous, state: state}
	}
	for i, c := range []struct {
		key    int16
		arm    Arm
		level  int16
		serves bool
		frame  []byte
		closed bool
		want   *seen
	}{
		{80, ArmAuto, 2, false, voter0, false, admin(codec.Exact)},
		{80, ArmAuto, 2, false, voter1, false, admin(codec.Exact)},
		{80, ArmAuto, 2, false, trailing, false, admin(codec.Tolerated)},
		{80, ArmAuto, 2, false, txn, true, unread(policy.Lost)},
		{80, ArmAuto, 2, true, txn, false, unread(policy.Answered)},
		{80, ArmNever, 3, true, txn, false, unread(policy.Answered)},
		{80, ArmAuto, 3, true, txn, false, ack},
		{80, ArmAuto, 3, true, none, false, nil},
		{80, ArmAuto, 3, true, voter0, false, admin(codec.Exact)},
		{80, ArmAuto, 3, true, voter1, false, admin(codec.Exact)},
		{80, ArmAuto, 3, true, trailing, false, admin(codec.Tolerated)},
		{80, ArmAuto, 3, true, txn1, true, unread(policy.Unreadable)},
		{80, ArmAlways, 0, true, txn, false, ack},
		{95, ArmAuto, 2, false, named(t, "txn_share_ack_req_v0_key80", 95), true, unread(policy.Lost)},
		{80, ArmAuto, 3, false, named(t, "txn_share_ack_req_v0_key80", 95), true, unread(policy.Lost)},
		{80, ArmNever, 2, true, named(t, "txn_share_ack_req_v0_key80", 95), false, unread(policy.Answered)},
		{95, ArmAuto, 3, true, named(t, "txn_share_ack_req_v0_key80", 95), false, ack},
		{95, ArmAuto, 3, true, voter1, false, admin(codec.Exact)},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			got := new(recorder)
			s := start(t, Config{Upstream: []string{script(t, voterBroker(c.level, c.serves))}, TxnKey: c.key, TxnArm: c.arm, Observers: []policy.Observer{got}}, nil)
			client := dial(t, s)
			client.Write(request(kmsg.NewPtrApiVersionsRequest(), 4, 1))
			if _, err := readFrame(client); err != nil {
				t.Fatal(err)
			}
			client.Write(c.frame)
			answer, err := readFrame(client)
			if c.closed != (err != nil) || bytes.Contains(answer, []byte(upstreamHosts)) || err == nil && idOf(answer, true) != idOf(c.frame, false) {
				t.Errorf("%v, answer %q", err, answer)
			}
			if c.want == nil {
				client.Write(voter1) // a later exchange is observed, and this one was not
				readFrame(client)
				c.want = admin(codec.Exact)
			}
			eventually(t, "an outcome", func() bool { return len(got.seen()) > 0 })
			o := got.seen()[0]
			if is := (seen{o.Kind, o.Request.Carrier, o.Request.Decode, o.Reply.State, o.Reply.ErrorCode}); is != *c.want || len(got.seen()) != 1 {
				t.Errorf("%d outcomes, the first %+v, want %+v (%v)", len(got.seen()), is, *c.want, o.Request.Problem)
			}
			if o.Kind == policy.Acknowledgement && (string(o.Request.GroupID) == "" || !concernsAcknowledgements(&o.Request) || len(o.Reply.Partitions) != 1 || o.Reply.Partitions[0].ErrorCode != 6) {
				t.Errorf("%+v", o)
			}
		})
	}
}

// A frame of the configured key whose header cannot be read is still one that concerns acknowledgements.
func TestUndecodableHeader(t *testing.T) {
	for _, key := range []int16{codec.KeyShareFetch, codec.KeyShareAcknowledge, 80} {
		got := new(recorder)
		s := start(t, Config{Upstream: []string{script(t, func(c *net.TCPConn) { readFrame(c) })}, Observers: []policy.Observer{got}}, nil)
		f := bare(key, 0)
		f[12], f[13] = 0x7f, 0xff // a client id longer than the frame
		c := dial(t, s)
		c.Write(f)
		closedBy(c)
		eventually(t, "an outcome", func() bool { return len(got.seen()) == 1 })
		if o := got.seen()[0]; o.Kind != policy.Undecodable || o.Reply.State != policy.Lost || !bytes.Equal(o.Request.Frame, f) {
			t.Errorf("%+v", o)
		}
	}
}

// An answer to AddRaftVoter has no addresses: it passes also where it cannot be read, unless its request may have been something else.
func TestVoterAnswers(t *testing.T) {
	unreadable := []byte{0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 2}
	newer := sized(append(bare(codec.KeyAddRaftVoter, 2), 0, 1, 2, 3))
	newer[11] = 9
	garbage := sized(append(bare(codec.KeyAddRaftVoter, 1), 0, 0xff, 0xff))
	garbage[11] = 9
	voter := named(t, "add_raft_voter_req_v1")
	binary.BigEndian.PutUint32(voter[8:], 9)
	for what, c := range map[string]struct {
		ask, answer []byte
		passes      bool
	}{"unreadable": {voter, unreadable, true}, "of a version to come": {newer, unreadable, true}, "to garbage": {garbage, unreadable, false}} {
		got := new(recorder)
		answer := sized(slices.Clone(c.answer))
		s := start(t, Config{Upstream: []string{script(t, answering(func([]byte) []byte { return answer }))}, Observers: []policy.Observer{got}}, nil)
		client := dial(t, s)
		client.Write(c.ask)
		if f, err := readFrame(client); c.passes != (err == nil) || c.passes && !bytes.Equal(f, answer) {
			t.Errorf("%s: %v, %x", what, err, f)
		}
		eventually(t, "an outcome", func() bool { return len(got.seen()) == 1 })
		if o := got.seen()[0]; o.Kind != policy.AdminRequest || o.Reply.State != policy.Unreadable {
			t.Errorf("%s: %+v", what, o)
		}
	}
}
