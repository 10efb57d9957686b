package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"
)

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestValidateText(t *testing.T) {
	file := configFile(t, "listen:\n  bootstrp: a:1\nprotocol: {max_frame: 5MB}\n")
	r := inProcess(t, "validate", "-c", file)
	want := file + ":2:3: listen.bootstrp: unknown key (the nearest known key is listen.bootstrap)\n" +
		file + ":3:23: protocol.max_frame: the size 5MB has the unit MB (write 5MiB, which is 1048576 bytes each)\n"
	if r.status != 2 || r.out != want || r.err != "" {
		t.Errorf("status %d\n%s%s\nwant\n%s", r.status, r.out, r.err, want)
	}
}

func TestValidateJSON(t *testing.T) {
	file := configFile(t, "log: {level: loud}\n")
	r := inProcess(t, "validate", "-o", "json", "-c", file)
	var v struct {
		OK       *bool
		Problems []map[string]any
	}
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || strings.Count(r.out, "\n") != 1 {
		t.Fatalf("%v in %q", err, r.out)
	}
	if r.status != 2 || *v.OK || len(v.Problems) != 1 {
		t.Fatalf("status %d, %s", r.status, r.out)
	}
	for k, want := range map[string]any{"file": file, "line": 1.0, "column": 14.0, "key": "log.level",
		"problem": `"loud" is not a value of this setting`, "hint": "write trace, debug, info, warn or error"} {
		if got := v.Problems[0][k]; got != want {
			t.Errorf("%s is %v, want %v", k, got, want)
		}
	}
	if r := inProcess(t, "validate", "-o", "json"); r.status != 0 || r.out != `{"ok":true,"problems":[],"warnings":[]}`+"\n" {
		t.Errorf("status %d, %s", r.status, r.out)
	}
}

// What validate says about the environment.
func TestValidateEnvironment(t *testing.T) {
	cmd := command(t, "validate")
	cmd.Env = append(cmd.Env, "ACKPROXY_DRAIN_TIMEOUT=5", "ACKPROXY_STATE_DIRS=x")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 2 ||
		out.String() != "environment: ACKPROXY_DRAIN_TIMEOUT: the duration 5 has no unit (write 5s, or another of ms, s, m, h, d)\n" ||
		errs.String() != "warning: environment: ACKPROXY_STATE_DIRS: no setting has this variable, it is ignored (the nearest is ACKPROXY_STATE_DIR)\n" {
		t.Errorf("%v\n%s\n%s", err, out.String(), errs.String())
	}
}

func TestValidateOnline(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := dead.Addr().String()
	dead.Close()
	on, off := cluster(t), cluster(t, kfake.MaxVersions(kversion.V4_1_0()))
	old := cluster(t, kfake.MaxVersions(kversion.V3_9_0()))
	for _, c := range []struct {
		name, config string
		status       int
		want         []string
	}{
		{"share groups on", "upstream: {bootstrap: [" + on + "]}\n", 0, []string{": ok\n", on + ": reachable, cluster ", "ShareAcknowledge (key 79): versions 0 to 2", "share.version: 2 of at most 2"}},
		{"share groups off", "upstream: {bootstrap: [" + off + "]}\n", 1, []string{"share groups are off", "kafka-features.sh --bootstrap-server " + off}},
		{"old broker", "upstream: {bootstrap: [" + old + "]}\n", 1, []string{"ShareFetch (key 78) is missing"}},
		{"unreachable", "upstream: {bootstrap: [" + nobody + ", " + on + "], dial_timeout: 5s}\n", 1, []string{nobody + ": not reachable", on + ": reachable"}},
		{"nodes are asked as well", "upstream: {bootstrap: [" + on + "], nodes: {1: " + nobody + "}}\n", 1, []string{nobody + ": not reachable"}},
		{"a node without a port", "listen: {broker_ports: {base: 65535}}\nupstream: {bootstrap: [" + cluster(t, kfake.NumBrokers(3)) + "]}\n", 1, []string{"lower listen.broker_ports.base"}},
		{"a wrong configuration is not tried", "drain: {timeout: x}\nupstream: {bootstrap: [" + on + "]}\n", 2, []string{"drain.timeout"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := configFile(t, c.config)
			r := inProcess(t, "validate", "--online", "-c", file)
			for _, want := range c.want {
				if !strings.Contains(r.out, want) {
					t.Errorf("lacks %q", want)
				}
			}
			if r.status != c.status || r.err != "" {
				t.Errorf("status %d, want %d", r.status, c.status)
			}
			if t.Failed() {
				t.Log(r.out, r.err)
			}
			j := inProcess(t, "validate", "--online", "-o", "json", "-c", file)
			var v struct {
				OK     bool
				Online []brokerReport
			}
			if err := json.Unmarshal([]byte(j.out), &v); err != nil || v.OK != (c.status == 0) || (len(v.Online) > 0) != (c.status < 2) || j.status != c.status {
				t.Errorf("%v, status %d, %s", err, j.status, j.out)
			}
		})
	}
}

// What a dead-letter policy needs of its clusters is asked as well.
func TestValidateOnlineDLQ(t *testing.T) {
	on := cluster(t, kfake.SeedTopics(1, "dlq.all"))
	const head = "upstream: {bootstrap: [%[1]q]}\npolicies:\n  - {name: edge, builtin: endpoints, config: {rules: [{advertise: edge}]}}\n" +
		"  - {name: dead, builtin: dlq, config: {topic: %[2]s, cluster: {bootstrap: [%[3]q]}}}\n"
	for name, c := range map[string]struct {
		topic, at, want string
		status          int
	}{
		"well":      {"dlq.all", on, "policy dead: its clusters can be reached\n", 0},
		"template":  {"\"dlq.x.{topic}\"", on, "policy dead: its clusters can be reached\n  note: policies[1].config.topic: dlq.x.{topic}: not checked whether", 0},
		"no topic":  {"dlq.missing", on, "policy dead:\n  problem: policies[1].config.topic: dlq.missing: UNKNOWN_TOPIC_OR_PARTITION", 1},
		"no broker": {"dlq.all", hangsUp(t), "policy dead:\n  problem: policies[1].config.cluster: no broker can be reached: ", 1},
	} {
		file := configFile(t, fmt.Sprintf(head, on, c.topic, c.at))
		r := inProcess(t, "validate", "--online", "-c", file)
		if r.status != c.status || !strings.Contains(r.out, c.want) || r.err != "" {
			t.Errorf("%s: status %d, %s%s\nwant %s", name, r.status, r.out, r.err, c.want)
		}
		r = inProcess(t, "validate", "--online", "-c", file, "-o", "json")
		var v validation
		if err := json.Unmarshal([]byte(r.out), &v); err != nil || v.OK != (c.status == 0) || len(v.Policies) != 1 || v.Policies[0].Policy != "dead" ||
			len(v.Policies[0].Problems) != c.status || r.status != c.status {
			t.Errorf("%s: %v, status %d, %s", name, err, r.status, r.out)
		}
	}
	file := configFile(t, "state: {dir: \"\"}\n"+fmt.Sprintf(head, on, "dlq.all", on))
	if r := inProcess(t, "validate", "-c", file); r.status != 2 || !strings.Contains(r.out, "policies[1].config.on_failure: a spool needs a state directory") {
		t.Errorf("without a state directory: status %d, %s%s", r.status, r.out, r.err)
	}
}
