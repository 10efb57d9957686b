package audit

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
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
