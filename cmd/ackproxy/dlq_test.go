package main

import (
	"encoding/json"
	"fmt"
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

// Before the first letter there is no dead-letter topic: that is no outage.
func TestDLQInspectNothing(t *testing.T) {
	at := cluster(t, kfake.SeedTopics(1, "orders"))
	want := "no dead letters: there is no topic yet whose name begins with \"dlq.\", or none that may be seen\n"
	if r := inProcess(t, "dlq", "inspect", "--bootstrap", at); r.status != 0 || r.out != want || r.err != "" {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
	if r := inProcess(t, "dlq", "inspect", "--bootstrap", at, "-o", "json"); r.status != 0 || r.out+r.err != "" {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
	file := dlqConfig(t, at, withSpool(t))
	if r := inProcess(t, "dlq", "inspect", "-c", file); r.status != 0 || !strings.Contains(r.out, "spool (refused)") || strings.Contains(r.out, "no topic") {
		t.Errorf("%d: %s%s", r.status, r.out, r.err)
	}
}

// Where any topic may have dead letters, not all of the cluster is read in search of them.
func TestDLQInspectNoPrefix(t *testing.T) {
	file := configFile(t, fmt.Sprintf("policies:\n  - {name: dead, builtin: dlq, config: {cluster: {bootstrap: [%q]}, allowed_prefix: \"\", topic: \"{topic}.dlq\"}}\n"+
		"state: {dir: %q}\n", withLetters(t, 1), t.TempDir()))
	if r := inProcess(t, "dlq", "inspect", "-c", file); r.status != 2 || r.out != "" || !strings.Contains(r.err, "--topic is missing") {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
	if r := inProcess(t, "dlq", "inspect", "-c", file, "--topic", "dlq.orders"); r.status != 0 || r.err != "" || !strings.Contains(r.out, "billing") {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
}

// Letters can be looked at where neither the plugins of the configuration are nor the credentials of its other clusters.
func TestDLQElsewhere(t *testing.T) {
	const policies = `policies:
  - {name: mine, plugin: {path: /nowhere/plugin, sha256: 0000000000000000000000000000000000000000000000000000000000000000, files: [{path: /nowhere/file, sha256: 0000000000000000000000000000000000000000000000000000000000000000}]}}
  - name: dead
    builtin: dlq
    config:
      cluster: {bootstrap: [%q]}
      clusters: {archive: {bootstrap: ["a:1"], tls: {ca: /nowhere/ca, cert: /nowhere/cert, key: /nowhere/key}}}
      source: {bootstrap: ["s:1"], sasl: {mechanism: PLAIN, username: u, password_file: /nowhere/password}}
`
	file := configFile(t, fmt.Sprintf(policies, withLetters(t, 1))+fmt.Sprintf("state: {dir: %q}\n", t.TempDir()))
	for _, args := range [][]string{{"inspect"}, {"redrive", "--topic", "dlq.orders"}} {
		r := inProcess(t, append([]string{"dlq", args[0], "-c", file}, args[1:]...)...)
		if r.status != 0 || r.err != "" || !strings.Contains(r.out, "dlq.orders") {
			t.Errorf("%v: status %d: %s%s", args, r.status, r.out, r.err)
		}
		r = inProcess(t, append([]string{"dlq", args[0], "-c", file, "--cluster", "archive"}, args[1:]...)...)
		if r.status != 1 || !strings.Contains(r.err, "policy dead: clusters.archive.tls.ca: the file cannot be read: open /nowhere/ca") {
			t.Errorf("%v of a cluster that needs them: status %d: %s%s", args, r.status, r.out, r.err)
		}
	}
	file = configFile(t, fmt.Sprintf(policies, "k:http"))
	if r := inProcess(t, "dlq", "inspect", "-c", file); r.status != 2 || !strings.Contains(r.err, "policies[1].config.cluster.bootstrap[0]") || strings.Count(r.err, "\n") != 1 {
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
