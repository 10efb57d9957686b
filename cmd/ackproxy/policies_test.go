package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy/dlq/redrive"
)

// A policy of builtin audit is a further log, with the same events and metrics of its own.
func TestBuiltinAudit(t *testing.T) {
	dir := t.TempDir()
	main, more := filepath.Join(dir, "main.jsonl"), filepath.Join(dir, "more.jsonl")
	file := configFile(t, "upstream: {bootstrap: ["+`"`+cluster(t)+`"`+"]}\naudit: {sinks: [{type: file, path: "+main+"}]}\n"+
		"policies: [{name: audit, builtin: audit, config: {sinks: [{type: file, path: "+more+"}]}}]\n")
	p := start(t, "-c", file, "--state", dir)
	if _, metrics := p.get("/metrics"); !strings.Contains(metrics, `ackproxy_audit_head_seq{stream="audit"}`) ||
		!strings.Contains(metrics, `ackproxy_audit_head_seq{stream="policies.audit"}`) {
		t.Error(metrics)
	}
	c := p.dial()
	acknowledge := golden(t)["share_ack_req_v1_reject_range"]
	ask(t, c, acknowledge.bytes(t))
	c.Close()
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	for _, path := range []string{main, more} {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `"last":150391,"type":"reject"`) || !strings.Contains(string(text), `"stop"`) {
			t.Errorf("%s: %v, %s", path, err, text)
		}
	}
}

// What is wrong with a built-in policy is told with its place, by validate and by run.
func TestBuiltinProblems(t *testing.T) {
	file := configFile(t, "policies:\n  - name: more\n    builtin: audit\n    config:\n      sinks:\n        - {type: file}\n        - {type: stdout}\n"+
		"  - {name: dead, builtin: dlq}\n")
	want := file + ":6:11: policies[0].config.sinks[0]: the file sink has no path (write {type: file, path: /var/log/ackproxy/more.jsonl})\n" +
		file + ":8:5: policies[1].config.cluster.bootstrap: is missing: it says where dead letters go\n"
	if r := inProcess(t, "validate", "-c", file); r.status != 2 || r.out != want {
		t.Errorf("status %d\n%s\nwant\n%s", r.status, r.out, want)
	}
	if r := inProcess(t, "run", "-c", file); r.status != 2 || r.err != want {
		t.Errorf("status %d\n%s\nwant\n%s", r.status, r.err, want)
	}
	file = configFile(t, "policies:\n  - name: dead\n    builtin: dlq\n    config:\n      cluster: {bootstrap: [\"127.0.0.1:http\"], tls: {ca: /nowhere/ca.pem}}\n")
	want = file + ":5:29: policies[0].config.cluster.bootstrap[0]: \"127.0.0.1:http\": the port \"http\" is out of range (write a port of 1 to 65535)\n"
	if r := inProcess(t, "validate", "-c", file); r.status != 2 || r.out != want {
		t.Errorf("status %d\n%s\nwant\n%s", r.status, r.out, want)
	}
	file = configFile(t, "policies:\n  - name: dead\n    builtin: dlq\n    config:\n      cluster: {bootstrap: [\"k:1\"], tls: {ca: /nowhere/ca.pem}}\n"+
		"      source: {bootstrap: [\"k:1\"], sasl: {mechanism: PLAIN, username: u, password_file: /nowhere/p}}\n")
	want = file + ":5:43: policies[0].config.cluster.tls.ca: the file cannot be read: open /nowhere/ca.pem: no such file or directory\n" +
		file + ":6:74: policies[0].config.source.sasl.password_file: the file cannot be read: open /nowhere/p: no such file or directory\n"
	for _, command := range []string{"validate", "run"} {
		if r := inProcess(t, command, "-c", file); r.status != 2 || r.out+r.err != want {
			t.Errorf("%s: status %d\n%s%s\nwant\n%s", command, r.status, r.out, r.err, want)
		}
	}
	file = configFile(t, "policies: [{name: more, builtin: audit, config: {sinks: [{type: stdout}]}}]\n")
	want = file + ":1:58: policies[0].config.sinks[0]: two sinks write to stdout (give each a place of its own)\n"
	if r := inProcess(t, "validate", "-c", file); r.status != 2 || r.out != want {
		t.Errorf("status %d\n%s\nwant\n%s", r.status, r.out, want)
	}
}

// A policy that can write headers only is pointed out.
func TestNoPayloads(t *testing.T) {
	const warning = "policies[0].config: protocol.keep_records is 0 and there is no source: every dead letter will be without its payload " +
		"(set keep_records, or name the source)\n"
	for source, want := range map[string]string{"": warning, ", source: {bootstrap: [\"k:1\"]}": ""} {
		file := configFile(t, "protocol: {keep_records: 0}\npolicies: [{name: dead, builtin: dlq, config: {cluster: {bootstrap: [\"k:1\"]}"+source+"}}]\n")
		if want != "" {
			want = "warning: " + file + ":2:47: " + want
		}
		if r := inProcess(t, "validate", "-c", file); r.status != 0 || r.err != want || r.out != file+": ok\n" {
			t.Errorf("status %d, %s%s", r.status, r.out, r.err)
		}
	}
	file := configFile(t, "policies: [{name: dead, builtin: dlq, config: {cluster: {bootstrap: [\"k:1\"]}}}]\n")
	if r := inProcess(t, "validate", "-c", file); r.status != 0 || r.err != "" {
		t.Errorf("status %d, %s%s", r.status, r.out, r.err)
	}
}

// Clients are told what the first rule for them says, in process and in a plugin; what is not mapped by any policy stays as it is.
func TestEndpointPolicies(t *testing.T) {
	broker := cluster(t)
	path, sum := pluginFile(t)
	rules := "  - {name: zones, builtin: endpoints, config: {rules: [{match: {client_id: app-*, client: 127.0.0.0/8}, advertise: \"{id}.zone.example.com\", ports: {base: 500}}]}}\n"
	for name, c := range map[string]struct{ policies, clientID, want string }{
		"built-in":  {rules, "app-1", "0.zone.example.com:500"},
		"not meant": {rules, "other", ""},
		"plugin":    {policyLine("mine", path, sum, ""), "app-1", "edge:"},
		"first":     {rules + policyLine("mine", path, sum, ""), "app-1", "0.zone.example.com:500"},
		"second":    {rules + policyLine("mine", path, sum, ""), "other", "edge:"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "-c", configFile(t, "policies:\n"+c.policies), "--upstream", broker, "--state", "st", "--advertise", "127.0.0.9")
			p.answers("/readyz", 200)
			want := c.want
			if want == "" {
				want = "127.0.0.9:"
			}
			request := kmsg.NewPtrMetadataRequest()
			request.Version = 7
			answer := ask(t, p.dial(), kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.clientID)).AppendRequest(nil, request, 1))
			told := kmsg.NewPtrMetadataResponse()
			told.Version = 7
			if err := told.ReadFrom(answer[8:]); err != nil || len(told.Brokers) != 1 {
				t.Fatalf("%v, %+v", err, told)
			}
			b := told.Brokers[0]
			if got := fmt.Sprintf("%s:%d", b.Host, b.Port); b.NodeID != 0 || !strings.HasPrefix(got, want) {
				t.Errorf("told %s, want %s", got, want)
			}
		})
	}
}

// yamlOf is the first YAML of a document, or the first behind a heading of it.
func yamlOf(t *testing.T, document, heading string) string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut("\n"+string(text), "\n"+heading)
	_, after, shown := strings.Cut(after, "```yaml\n")
	block, _, ended := strings.Cut(after, "```\n")
	if !found || !shown || !ended {
		t.Fatalf("%s has no YAML behind %q", document, heading)
	}
	return block
}

// What documents and config.example.yaml show is a configuration.
func TestDocumentedPolicies(t *testing.T) {
	example, err := os.ReadFile("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, commented, _ := strings.Cut(string(example), "# - name: more")
	commented, _, _ = strings.Cut("# - name: more"+commented, "\n\n")
	commented = "policies:\n" + strings.ReplaceAll(strings.TrimPrefix(commented, "# "), "\n# ", "\n")
	letters := yamlOf(t, "../../docs/dead-letters.md", "")
	for _, c := range []struct {
		text string
		want int
	}{
		{yamlOf(t, "../../docs/endpoints.md", ""), 1}, {commented, 3}, {letters, 1},
		{letters + yamlOf(t, "../../docs/dead-letters.md", "## Where it goes"), 1}, {yamlOf(t, "../../README.md", "## Dead letters"), 1},
	} {
		file := configFile(t, c.text)
		if r := inProcess(t, "plugins", "list", "-c", file, "-o", "json"); r.status != 0 || strings.Count(r.out, "\n") != c.want {
			t.Errorf("status %d\n%s%s\nof\n%s", r.status, r.out, r.err, c.text)
		}
	}
}

// TestReadmeDeadLetters does what the README says of dead letters: a consumer rejects a record, which inspect shows and redrive would bring back.
func TestReadmeDeadLetters(t *testing.T) {
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	k.SetGroupConfigs("billing", map[string]string{"share.auto.offset.reset": "earliest"})
	state := t.TempDir()
	file := configFile(t, strings.ReplaceAll(yamlOf(t, "../../README.md", "## Dead letters"), "localhost:9092", k.ListenAddrs()[0])+
		fmt.Sprintf("state: {dir: %q}\n", state))
	if r := inProcess(t, "validate", "-c", file, "--online"); r.status != 0 {
		t.Fatalf("status %d\n%s%s", r.status, r.out, r.err)
	}
	p := start(t, "-c", file)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	member, err := kgo.NewClient(kgo.SeedBrokers(p.address), kgo.ConsumeTopics("orders"), kgo.ShareGroup("billing"), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	if err := member.ProduceSync(ctx, kgo.StringRecord("unreadable")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for rejected := false; !rejected; {
		fetches := member.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal("no record came")
		}
		fetches.EachRecord(func(r *kgo.Record) { r.Ack(kgo.AckReject); rejected = true })
	}
	if err := member.FlushAcks(ctx); err != nil {
		t.Fatal(err)
	}
	r := inProcess(t, "dlq", "inspect", "-c", file, "-o", "json")
	var row redrive.Row
	if err := json.Unmarshal([]byte(r.out), &row); err != nil || row.DLQ != "dlq.orders" || row.Where != redrive.InTopic || row.Topic != "orders" ||
		row.Group != "billing" || row.Reason != "client_reject" || row.Payload != "full" || row.Letters != 1 || row.Bytes != int64(len("unreadable")) {
		t.Errorf("%v: %s%s", err, r.out, r.err)
	}
	r = inProcess(t, "dlq", "redrive", "-c", file, "--topic", "dlq.orders", "--dry-run")
	if r.status != 0 || r.out != "dlq.orders: 1 records read, 1 would be redriven (1 to orders)\n" {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
}

// A program that is no plugin, or one of another protocol, is refused with its place in the file, by validate and by run.
func TestNoPlugin(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ script, says string }{
		"no plugin": {"#!/bin/sh\necho hello\n", "plugin mine: "},
		"newer":     {"#!/bin/sh\necho '1|9|unix|/tmp/none|grpc|'\nsleep 10\n", "is older: it speaks protocol 1, and the plugin only 9"},
	} {
		program := filepath.Join(dir, strings.ReplaceAll(what, " ", "-"))
		if err := os.WriteFile(program, []byte(c.script), 0o700); err != nil {
			t.Fatal(err)
		}
		file := configFile(t, fmt.Sprintf("listen: {bootstrap: \"127.0.0.1:0\"}\nadmin: {listen: none}\npolicies:\n  - name: mine\n    plugin: {path: %s, sha256: %x}\n",
			program, sha256.Sum256([]byte(c.script))))
		if r := inProcess(t, "validate", "-c", file); r.status != 2 || !strings.Contains(r.out, file+":5:13: policies[0].plugin: ") || !strings.Contains(r.out, c.says) {
			t.Errorf("%s: status %d\n%s%s", what, r.status, r.out, r.err)
		}
		if r := inProcess(t, "run", "-c", file); r.status != 1 || !strings.Contains(r.err, file+":4:5: policies[0]: ") || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: status %d\n%s%s", what, r.status, r.out, r.err)
		}
	}
}
