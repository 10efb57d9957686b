package audit

import (
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// TestReader reads the golden lines back.
func TestReader(t *testing.T) {
	f, err := os.Open("testdata/golden.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(f)
	types := make(map[string]int)
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		types[e.Type]++
		if e.Request.Carrier == "share_fetch" && e.Verdict.State == "refused" {
			if *e.Verdict.ErrorCode != 121 || e.Actor.MemberID != "m1" || *e.Actor.Claimed.ClientID != "orders-1" || *e.Target.BrokerID != 2 ||
				*e.Verdict.ErrorMessage != "The record state is invalid. \"x\"\n" || *e.Time.TookMs != 6.624 || !e.Time.Request.Equal(noon) {
				t.Errorf("%+v", e)
			}
		}
	}
	for typ, want := range map[string]int{"share.ack": 8, "share.session": 1, "share.undecodable": 1, "admin.request": 1, "audit.control": 4} {
		if types[typ] != want {
			t.Errorf("%d events of type %s, want %d", types[typ], typ, want)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	r := NewReader(strings.NewReader("{\"v\":1,\"ack\":{\"records\":\"12\"}}\n{\"ack\":{\"records\":\"x\"}}\n{\"v\":"))
	if e, err := r.Next(); err != nil || e.Ack.Records != 12 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), "offset") {
		t.Errorf("%v", err)
	}
	if _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

// TestReaderEdits reads back what policies did.
func TestReaderEdits(t *testing.T) {
	o := both(four(t, 0))
	o.Decision.DelayReply, o.Decision.Close = 1500*time.Microsecond, policy.CloseReplied
	o.Decision.Trail = failing(policy.FailForward)
	o.Decision.Replies = []policy.ReplyEdit{{TopLevel: true, ErrorCode: 41}}
	_, events := audit(t, o, four(t, 0))
	common := []Action{{Action: "answer", Scope: "request", ErrorCode: 41, ErrorName: "NOT_CONTROLLER"}, {Action: "delay", ReplyMs: 1.5},
		{Action: "close", At: "replied"}, {Name: "retry", Action: "failed", Error: "no answer within 50ms", Did: "forward", TookMs: 50}}
	change := Action{Name: "retry", Action: "change", Ranges: []EditRange{{20, 22, "reject", "release"}}, Reason: "not poison"}
	withhold := Action{Name: "dlq", Action: "withhold", Ranges: []EditRange{{23, 24, "reject", ""}}, Reason: "the dead letter is not durable"}
	for i, want := range []struct {
		forwarded Forwarded
		policy    []Action
	}{
		{Forwarded{Ranges: []Range{{First: 10, Last: 19, Type: "accept"}, {First: 20, Last: 22, Type: "release"}}}, append([]Action{change}, common...)},
		{Forwarded{Ranges: []Range{}}, append([]Action{withhold}, common...)},
		{Forwarded{Same: true}, nil},
	} {
		if e := events[i]; !reflect.DeepEqual(e.Ack.Forwarded, want.forwarded) || !reflect.DeepEqual(e.Policy, want.policy) {
			t.Errorf("event %d: %+v\n%+v", i, e.Ack.Forwarded, e.Policy)
		}
	}
	if _, err := ParseLine([]byte(`{"ack":{"forwarded":"other"}}`)); err == nil || !strings.Contains(err.Error(), "forwarded") {
		t.Errorf("%v", err)
	}
}
