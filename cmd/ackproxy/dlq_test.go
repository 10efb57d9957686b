package main

import (
	"encoding/json"

	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/dlq/redrive"
)

// withLetters starts a broker that has so many dead letters from the topic orders, and returns its address.
func withLetters(t *testing.T, n int) string {
	t.Helper()
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "dlq.orders"),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(k.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i := range n {
		l := letter.Letter{Group: "billing", Topic: "orders", TopicID: codec.UUID{1}, Offset: int64(i), Reason: letter.ClientReject, Payload: letter.Full,
			Time: time.Now().Add(-3 * time.Hour), Source: &policy.Record{Value: []byte("secret")}}
		r := &kgo.Record{Topic: "dlq.orders", Value: l.Source.Value}
		for _, h := range l.Headers(letter.KIP1191) {
			r.Headers = append(r.Headers, kgo.RecordHeader(h))
		}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return k.ListenAddrs()[0]
}

func TestDLQInspect(t *testing.T) {
	at := withLetters(t, 3)
	r := inProcess(t, "dlq", "inspect", "--bootstrap", at)
	for _, want := range []string{"DEAD-LETTER TOPIC", "dlq.orders", "billing", "client_reject", "3h00m"} {
		if r.status != 0 || !strings.Contains(r.out, want) || r.err != "" {
			t.Errorf("no %q in status %d: %s%s", want, r.status, r.out, r.err)
		}
	}
	r = inProcess(t, "dlq", "inspect", "--bootstrap", at, "-o", "json")
	var row redrive.Row
	if err := json.Unmarshal([]byte(r.out), &row); err != nil || row.Letters != 3 || row.Topic != "orders" || row.DLQ != "dlq.orders" || row.Group != "billing" {
		t.Errorf("%s: %v", r.out, err)
	}
	r = inProcess(t, "dlq", "inspect", "--bootstrap", at, "-o", "json", "--letters", "--filter", "offset=1")
	var one redrive.Letter
	if err := json.Unmarshal([]byte(r.out), &one); err != nil || one.SourceOffset != 1 || one.Offset != 1 || one.ID == "" || one.KeyBytes != -1 || one.ValueBytes != 6 {
		t.Errorf("%s: %v", r.out, err)
	}
	if strings.Contains(r.out, "secret") {
		t.Error("a value was shown")
	}
	if r = inProcess(t, "dlq", "inspect", "--bootstrap", at, "--filter", "older=5h"); r.status != 0 || r.out != "no dead letters in dlq.orders\n" {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
	if r = inProcess(t, "dlq", "inspect", "--bootstrap", at, "--topic", "dlq.nothing"); r.status != 1 || !strings.Contains(r.err, "dlq.nothing") {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
}

func TestDLQRedrive(t *testing.T) {
	at := withLetters(t, 5)
	for range 2 {
		if r := inProcess(t, "dlq", "redrive", "--bootstrap", at, "--topic", "dlq.orders", "--filter", "older=4h"); r.status != 0 ||
			r.out != "dlq.orders: 0 records read, 0 redriven\n  5 stay for a later run: they are not old enough yet, or behind one that is not\n" {
			t.Errorf("%d: %s%s", r.status, r.out, r.err)
		}
	}
	if r := inProcess(t, "dlq", "redrive", "--bootstrap", at, "--topic", "dlq.orders", "--dry-run"); r.status != 0 ||
		r.out != "dlq.orders: 5 records read, 5 would be redriven (5 to orders)\n" {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
	r := inProcess(t, "dlq", "redrive", "--bootstrap", at, "--topic", "dlq.orders", "-o", "json")
	var result redrive.Result
	if err := json.Unmarshal([]byte(r.out), &result); err != nil || result.Redriven != 5 || result.To["orders"] != 5 || !result.Done || result.Group != "ackproxy-redrive.dlq.orders" {
		t.Errorf("%d: %s%s: %v", r.status, r.out, r.err, err)
	}
	if r = inProcess(t, "dlq", "redrive", "--bootstrap", at, "--topic", "dlq.orders"); r.status != 0 || r.out != "dlq.orders: 0 records read, 0 redriven\n" {
		t.Errorf("a second time: %d: %s%s", r.status, r.out, r.err)
	}
	if r = inProcess(t, "dlq", "redrive", "--bootstrap", at, "--topic", "dlq.nothing"); r.status != 1 || !strings.Contains(r.err, "dlq.nothing") {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
}
