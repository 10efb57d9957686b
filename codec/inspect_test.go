package codec

import (
	"bytes"
	"testing"
)

// requestFrame puts a header in front of a body.
func requestFrame(key, version int16, body []byte) []byte {
	h := RequestHeader{APIKey: key, APIVersion: version, CorrelationID: 7, Version: 2}
	frame := append(h.Append(make([]byte, 4)), body...)
	SetSize(frame)
	return frame
}

func responseFrame(body []byte) []byte {
	h := ResponseHeader{CorrelationID: 7, Version: 1}
	frame := append(h.Append(make([]byte, 4)), body...)
	SetSize(frame)
	return frame
}

// Key 80 has two meanings, 93 to 95 may have.
func TestInspectSharedKey(t *testing.T) {
	raft := AddRaftVoterRequest{VoterID: 3004}
	raft.Listeners.Append(Listener{Name: []byte("C"), Host: []byte("h"), Port: 9093})
	txn := TxnShareAcknowledgeRequest{GroupID: []byte("group"), MemberID: []byte("member")}
	raftFrame := requestFrame(80, 0, raft.Append(nil, 0))
	raftV1 := raft.Append(nil, 1)
	raftV1[len(raftV1)-2] = 2 // AckWhenCommitted
	topics := TxnShareAcknowledgeResponse{}
	topics.Responses.Append(AckResultTopic{})
	for name, c := range map[string]struct {
		frame   []byte
		query   Query
		api     string
		outcome Outcome
	}{
		"80 is AddRaftVoter":                 {raftFrame, Query{}, "AddRaftVoter", Exact},
		"80 armed is AddRaftVoter still":     {raftFrame, Query{TxnKey: 80}, "AddRaftVoter", Exact},
		"80 with other meaning":              {requestFrame(80, 0, txn.Append(nil, 0)), Query{TxnKey: 80}, "TxnShareAcknowledge", Exact},
		"80 with other meaning, not armed":   {requestFrame(80, 0, txn.Append(nil, 0)), Query{}, "AddRaftVoter", Anomalous},
		"80 v1, which only AddRaftVoter has": {requestFrame(80, 1, raftV1), Query{TxnKey: 80}, "AddRaftVoter", Tolerated},
		"80 armed, neither":                  {requestFrame(80, 0, []byte{1, 2}), Query{TxnKey: 80}, "TxnShareAcknowledge", Anomalous},
		"80 v2":                              {requestFrame(80, 2, nil), Query{TxnKey: 80}, "AddRaftVoter", Opaque},
		"95 armed":                           {requestFrame(95, 0, txn.Append(nil, 0)), Query{TxnKey: 95}, "TxnShareAcknowledge", Exact},
		"95 armed, v1":                       {requestFrame(95, 1, nil), Query{TxnKey: 95}, "TxnShareAcknowledge", Opaque},
		"95 not armed":                       {requestFrame(95, 0, txn.Append(nil, 0)), Query{}, "", Opaque},
		"93 not armed":                       {requestFrame(93, 0, txn.Append(nil, 0)), Query{}, "StreamsGroupTopologyDescriptionUpdate", Opaque},
		"79 is never anything else":          {requestFrame(79, 2, txn.Append(nil, 0)), Query{TxnKey: 79}, "ShareAcknowledge", Anomalous},
		"79 v3":                              {requestFrame(79, 3, nil), Query{}, "ShareAcknowledge", Opaque},
		"0 is Produce":                       {requestFrame(0, 9, nil), Query{}, "Produce", Opaque},
		"answer to 80": {responseFrame((&AddRaftVoterResponse{}).Append(nil, 0)),
			Query{Kind: Response, APIKey: 80}, "AddRaftVoter", Exact},
		"answer to 80, armed": {responseFrame((&AddRaftVoterResponse{}).Append(nil, 0)),
			Query{Kind: Response, APIKey: 80, TxnKey: 80}, "AddRaftVoter", Exact},
		"answer to 80 with other meaning": {responseFrame(topics.Append(nil, 0)),
			Query{Kind: Response, APIKey: 80, TxnKey: 80}, "TxnShareAcknowledge", Exact},
		"answer to 80 with other meaning and no topics": {responseFrame((&TxnShareAcknowledgeResponse{}).Append(nil, 0)),
			Query{Kind: Response, APIKey: 80, TxnKey: 80}, "TxnShareAcknowledge", Exact},
		"answer to 95": {responseFrame(topics.Append(nil, 0)), Query{Kind: Response, APIKey: 95, TxnKey: 95}, "TxnShareAcknowledge", Exact},
		"answer to 96": {responseFrame(nil), Query{Kind: Response, APIKey: 96}, "", Opaque},
	} {
		t.Run(name, func(t *testing.T) {
			i := Inspect(c.frame, c.query, nil)
			if i.API != c.api || i.Outcome != c.outcome || i.Header.CorrelationID != 7 {
				t.Errorf("%q %v %v, want %q %v", i.API, i.Outcome, i.Problem, c.api, c.outcome)
			}
		})
	}
}

// A frame that goes wrong shows what came before, and every cut of it does.
func TestInspectTellsUpToTheProblem(t *testing.T) {
	m := ackRequest(AckBatch{FirstOffset: 5, LastOffset: 6, Types: []byte{1, 2}})
	whole := requestFrame(KeyShareAcknowledge, 2, m.Append(nil, 2))
	for n := 4; n < len(whole); n++ {
		frame := bytes.Clone(whole[:n])
		SetSize(frame)
		tr := newTreeTracer(t)
		i := Inspect(frame, Query{}, tr)
		if i.Outcome != Anomalous || i.Problem.At > n || i.Problem.Field == "" {
			t.Fatalf("%d bytes: %v %v", n, i.Outcome, i.Problem)
		}
		tr.done(min(tr.next, i.Problem.At))
		fields, _ := tr.section("fields").(map[string]any)
		if group, ok := fields["GroupId"]; ok != (n >= 17) || ok && group != "g" {
			t.Errorf("%d bytes: group %v", n, group)
		}
	}
	frame := bytes.Clone(whole)
	frame[3]++
	tr := newTreeTracer(t)
	if i := Inspect(frame, Query{}, tr); i.Outcome != Anomalous || i.Problem.Field != "Size" {
		t.Error(i.Outcome, i.Problem)
	}
	tr.done(len(frame))
	for n := range 4 {
		if i := Inspect(whole[:n], Query{}, nil); i.Outcome != Anomalous || i.Problem.Field != "Size" {
			t.Error(n, i.Outcome, i.Problem)
		}
	}
}

// Of a header and a body with a problem each, the one that is read first is told, unless the other is worse.
func TestInspectHeaderAndBody(t *testing.T) {
	clientMinus2 := []byte{0, 0, 0, 0, 0, 79, 0, 1, 0, 0, 0, 7, 0xff, 0xfe, 0}
	for body, want := range map[string]string{
		"\x00\x00\x00\x00\x00\x00\x01\x00":     "ClientId", // exact
		"\x00\x00\x00\x00\x00\x00\x01\x00\x00": "ClientId", // trailing byte
		"\x00\x00\x00\x00\x00\x00\x00\x00":     "Topics",   // null
	} {
		frame := cat(clientMinus2, body)
		SetSize(frame)
		i := Inspect(frame, Query{}, nil)
		if i.Problem == nil || i.Problem.Field != want || (i.Outcome == Tolerated) != (want == "ClientId") {
			t.Errorf("%x: %v %v", body, i.Outcome, i.Problem)
		}
		if trailing := i.Outcome == Tolerated && len(body) == 9; (len(i.Trailing) == 1) != trailing {
			t.Errorf("%x: trailing %x", body, i.Trailing)
		}
	}
}
