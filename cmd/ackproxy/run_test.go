package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRun(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	p := start(t, "--upstream", cluster(t), "--audit", "file:"+audit, "--state", "st")
	l := p.line("message", "audited, armed, hidden and passed")
	for field, want := range map[string]string{"audited": "file:" + audit, "armed": "key 80", "hidden": "key 95", "passed": "everything else"} {
		if s, _ := l[field].(string); !strings.Contains(s, want) {
			t.Errorf("%s is %q, want %q in it", field, s, want)
		}
	}
	p.answers("/readyz", http.StatusOK)
	if status, body := p.get("/livez"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/livez: %d %q", status, body)
	}
	acknowledge := golden(t)["share_ack_req_v1_reject_range"]
	c := p.dial()
	answer := ask(t, c, acknowledge.bytes(t))
	if status, o := decodeJSON(t, answer, "--response", "--api-key", "79", "--api-version", "1"); status != 0 || o[0].Decode != "exact" {
		t.Errorf("the answer is %+v", o)
	}
	status, body := p.get("/metrics")
	for _, want := range []string{`ackproxy_build_info{kafka_schema="4.4",version="`, "ackproxy_connections", "go_goroutines", "process_open_fds"} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("/metrics: %d, lacks %s", status, want)
		}
	}
	c.Close()
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("status %d after a drain", status)
	}
	info, err := os.Stat(audit)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(audit)
	if err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, want := range []string{`"type":"share.ack"`, `"first":150382,"last":150391,"type":"reject"`, `"kind":"start"`, `"kind":"stop"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the audit lacks %s:\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(p.cmd.Dir, "st")); err != nil {
		t.Error(err)
	}
}

// Open connections go on while the proxy drains. A second signal ends them.
func TestSecondSignal(t *testing.T) {
	p := start(t, "--upstream", cluster(t), "--audit", "none")
	c := p.dial()
	versions := golden(t)["k440_api_versions_v3_req"]
	ask(t, c, versions.bytes(t))
	p.signal(syscall.SIGINT)
	p.line("message", "draining")
	p.answers("/readyz", http.StatusServiceUnavailable)
	ask(t, c, versions.bytes(t))
	p.signal(syscall.SIGTERM)
	p.line("message", "ending at once")
	if status := p.wait(); status != 1 {
		t.Errorf("status %d, want 1: connections were cut", status)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
}

// SIGHUP is what rotates a log: the process goes on, in a new file.
func TestHangup(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	p := start(t, "--upstream", cluster(t), "--audit", "file:"+audit)
	if err := os.Rename(audit, audit+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.line("message", "audit files are opened anew")
	ask(t, p.dial(), golden(t)["share_ack_req_v1_reject_range"].bytes(t))
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
	for file, want := range map[string]string{audit + ".1": `"kind":"start"`, audit: `"type":"share.ack"`} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s: %v\n%s", file, want, err, text)
		}
	}
}

// Without an upstream the proxy runs, and says that it is not ready.
func TestNoUpstream(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := dead.Addr().String()
	dead.Close()
	p := start(t, "--upstream", address, "--audit", "none")
	p.line("message", "upstream not reached")
	if status, body := p.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no upstream") {
		t.Errorf("/readyz: %d %q", status, body)
	}
	c, err := net.Dial("tcp", p.address)
	if err == nil { // else the reset was faster than the dial
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a client is not closed by a reset: %v", err)
	}
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// What cannot start leaves nothing behind.
func TestCannotStart(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"listener": {"--listen", taken.Addr().String(), "--admin", "127.0.0.1:0"},
		"admin":    {"--listen", "127.0.0.1:0", "--admin", taken.Addr().String()},
		"state":    {"--listen", "127.0.0.1:0", "--admin", "none", "--state", filepath.Join(file, "state")},
		"audit":    {"--listen", "127.0.0.1:0", "--admin", "none", "--audit", "file:" + filepath.Join(file, "audit")},
	} {
		audit := filepath.Join(t.TempDir(), "audit.jsonl")
		cmd := command(t, append([]string{"run", "--audit", "file:" + audit}, args...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || len(out) == 0 || strings.Contains(string(out), "listening") {
			t.Errorf("%s: %v, said %s", name, err, out)
		}
		if _, err := os.Stat(audit); err == nil && name != "audit" {
			t.Errorf("%s: an audit log was begun", name)
		}
	}
}

// When nobody reads the audit on standard output any more the proxy drains, instead of dying with its connections or going on unaudited.
func TestAuditReaderLeaves(t *testing.T) {
	p := start(t, "--upstream", cluster(t), "--audit", "stdout")
	p.answers("/readyz", http.StatusOK)
	p.out.Close()
	c := p.dial()
	ask(t, c, golden(t)["share_ack_req_v1_reject_range"].bytes(t))
	c.Close()
	p.line("message", "the reader of standard output")
	if status := p.wait(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// The environment and a file count, and unknown variables are pointed out.
func TestRunSources(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("upstream: {bootstrap: [%s]}\nlog: {level: error}\naudit: {sinks: []}\n", cluster(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "run", "-c", config, "--listen", "127.0.0.1:0", "--admin", "none")
	cmd.Env = append(cmd.Env, "ACKPROXY_LOG_LEVEL=info", "ACKPROXY_PORT=tcp://10.0.0.1:9092")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log []string
	for s := bufio.NewScanner(errs); s.Scan(); {
		log = append(log, s.Text())
		if strings.Contains(s.Text(), "armed, hidden and passed") {
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	all := strings.Join(log, "\n")
	for _, want := range []string{"ACKPROXY_PORT: no setting has this variable", `"listener":"bootstrap"`, "metrics only", "stopped"} {
		if !strings.Contains(all, want) {
			t.Errorf("the log lacks %q:\n%s", want, all)
		}
	}
}
