package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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
	file = configFile(t, "policies: [{name: more, builtin: audit, config: {sinks: [{type: stdout}]}}]\n")
	want = file + ":1:58: policies[0].config.sinks[0]: two sinks write to stdout (give each a place of its own)\n"
	if r := inProcess(t, "validate", "-c", file); r.status != 2 || r.out != want {
		t.Errorf("status %d\n%s\nwant\n%s", r.status, r.out, want)
	}
}
