package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
)

// pluginArg makes the test binary a plugin.
const pluginArg = "serve-as-plugin"

// gives is a plugin that gives records of "orders" back instead of rejecting them, watches, and sends clients to "edge".
type gives struct{ Fail bool }

func servePlugin() {
	sdk.Serve(func(config []byte) (policy.Policy, error) {
		p := gives{}
		if len(config) > 0 {
			if err := json.Unmarshal(config, &p); err != nil {
				return nil, err
			}
		}
		return p, nil
	})
}

func (gives) Name() string            { return "gives" }
func (gives) Traits() policy.Traits   { return policy.Traits{Budget: 20 * time.Second, Records: true} }
func (gives) Observe(*policy.Outcome) {}

func (p gives) Decide(_ context.Context, r *policy.Request) (v policy.Verdict, err error) {
	if p.Fail {
		return v, errors.New("not in the mood")
	}
	for _, q := range r.Partitions {
		for _, x := range q.Ranges {
			if x.Type == policy.Reject {
				v.Edits = append(v.Edits, policy.Edit{TopicID: q.TopicID, Partition: q.Index, First: x.First, Last: x.Last, Type: policy.Release})
			}
		}
	}
	return v, nil
}

func (p gives) Endpoints(context.Context, *policy.Client, []policy.Node) (policy.Table, error) {
	return policy.Table{Host: "edge"}, nil
}

// pluginFile is a copy of the test binary that only we may write to, and its checksum.
func pluginFile(t *testing.T) (path, sum string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path = filepath.Join(dir, "plugin")
	if err := errors.Join(os.WriteFile(path, content, 0o700), os.Chmod(dir, 0o700), os.Chmod(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	s := sha256.Sum256(content)
	return path, hex.EncodeToString(s[:])
}

func policyLine(name, path, sum, more string) string {
	return fmt.Sprintf("  - {name: %s, plugin: {path: %s, sha256: %q, args: [%s]}%s}\n", name, path, sum, pluginArg, more)
}

func TestPluginsList(t *testing.T) {
	path, sum := pluginFile(t)
	file := configFile(t, "policies:\n"+policyLine("mine", path, sum, ", on_failure: close, timeout: 70ms")+
		"  - {name: edge, builtin: endpoints, config: {rules: [{advertise: edge}]}}\n"+
		"  - {name: dead, builtin: dlq, config: {cluster: {bootstrap: [\"kafka:9092\"]}}}\n"+policyLine("changed", path, strings.Repeat("0", 64), ""))
	r := inProcess(t, "plugins", "list", "-c", file, "-o", "json")
	want := []string{
		fmt.Sprintf(`{"name":"mine","kind":"plugin","path":%q,"sha256":%q,"checksum_ok":true,"on_failure":"close","timeout":"70ms","problems":[]}`, path, sum),
		`{"name":"edge","kind":"builtin","builtin":"endpoints","checksum_ok":true,"on_failure":"","timeout":"","problems":[]}`,
		`{"name":"dead","kind":"builtin","builtin":"dlq","checksum_ok":true,"on_failure":"respond","timeout":"","problems":[]}`,
		fmt.Sprintf(`{"name":"changed","kind":"plugin","path":%q,"sha256":%q,"checksum_ok":false,"on_failure":"forward","timeout":"","problems":["sha256: %s has %s"]}`,
			path, strings.Repeat("0", 64), path, sum),
	}
	if r.status != 1 || r.out != strings.Join(want, "\n")+"\n" || r.err != "" {
		t.Errorf("status %d\n%s%s\nwant\n%s", r.status, r.out, r.err, strings.Join(want, "\n"))
	}
	if r := inProcess(t, "plugins", "list", "-c", file); r.status != 1 || strings.Count(r.out, "\n") != 6 || !strings.Contains(r.out, "changed: sha256: ") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	if r := inProcess(t, "plugins", "check", "-c", file); r.status != 2 || !strings.Contains(r.err, "policies[3].plugin.sha256: ") {
		t.Errorf("status %d\n%s", r.status, r.err)
	}
}

// check reports what plugins say and do, each on a line.
func TestPluginsCheck(t *testing.T) {
	path, sum := pluginFile(t)
	file := configFile(t, "policies:\n"+policyLine("good", path, sum, "")+"  - {name: edge, builtin: endpoints, config: {rules: [{advertise: edge}]}}\n"+
		policyLine("bad", path, sum, ", config: {fail: true}")+policyLine("refuses", path, sum, ", config: {fail: 1}"))
	r := inProcess(t, "plugins", "check", "-c", file, "--rounds", "3", "--topic", "t", "-o", "json")
	var all []trialReport
	for d := json.NewDecoder(strings.NewReader(r.out)); d.More(); {
		var one trialReport
		if err := d.Decode(&one); err != nil {
			t.Fatal(err, r.out)
		}
		all = append(all, one)
	}
	if r.status != 1 || len(all) != 3 {
		t.Fatalf("status %d\n%s%s", r.status, r.out, r.err)
	}
	good, bad, refuses := all[0], all[1], all[2]
	if !good.OK || !good.Decides || !good.Observes || !good.MapsEndpoints || !good.WantsRecords || good.Program != "gives" || good.BudgetMs != 20000 || good.Observed != 10 ||
		good.Endpoints != "1 is at edge:19101, 2 is at edge:19102" || len(good.Requests) != 9 {
		t.Errorf("%+v", good)
	}
	decided := map[string]string{}
	for _, q := range good.Requests {
		decided[q.Request] = q.Decided
		if q.Rounds != 3 || q.MedianMs <= 0 || q.MaxMs < q.MedianMs {
			t.Errorf("%+v", q)
		}
	}
	if decided["share_fetch_req_v1_piggyback"] != "t/3 150383-150383: reject becomes release" || decided["share_ack_req_v0_seed_66"] != "forward" {
		t.Error(decided)
	}
	if bad.OK || len(bad.Problems) != 9 || !strings.HasSuffix(bad.Problems[0], "round 1: the plugin says: not in the mood") || bad.Requests[0].Decided != "failed" {
		t.Errorf("%+v", bad)
	}
	if refuses.OK || len(refuses.Problems) != 1 || !strings.Contains(refuses.Problems[0], "it refuses its configuration: ") {
		t.Errorf("%+v", refuses)
	}
	if r := inProcess(t, "plugins", "check", "-c", file, "edge"); r.status != 2 || !strings.Contains(r.err, "edge is built in") {
		t.Errorf("status %d\n%s", r.status, r.err)
	}
	r = inProcess(t, "plugins", "check", "--path", path, "--sha256", sum, "--arg", pluginArg, "--rounds", "1")
	if r.status != 0 || !strings.Contains(r.out, "as gives: decides, maps endpoints, observes, wants records; budget 20000 ms") || !strings.HasSuffix(r.out, "  ok\n") {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
}

// A plugin does not outlive ackproxy, however that ends.
func TestPluginsDieWithAckproxy(t *testing.T) {
	path, sum := pluginFile(t)
	file := configFile(t, "policies:\n"+policyLine("a", path, sum, "")+policyLine("b", path, sum, ""))
	for _, s := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		p := start(t, "-c", file, "--upstream", "127.0.0.1:1", "--state", "st")
		_, metrics := p.get("/metrics")
		for _, want := range []string{
			`ackproxy_plugin_up{policy="a"} 1`, `ackproxy_plugin_starts_total{policy="b"} 1`, `ackproxy_plugin_outcomes_total{policy="a",result="dropped"} 0`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
		pids := children(t, p.cmd.Process.Pid)
		if len(pids) != 2 {
			t.Fatalf("children %v", pids)
		}
		p.signal(s)
		p.wait()
		end := time.After(patience)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for _, pid := range pids {
			for alive(pid) {
				select {
				case <-tick.C:
				case <-end:
					t.Fatalf("plugin %d runs on after %v", pid, s)
				}
			}
		}
	}
}

// children are the processes that a process has started. Linux only tells.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists a process's children in /proc")
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		t.Fatal("no process in /proc: ", err)
	}
	for _, f := range files {
		if _, fields, ok := stat(f); ok && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool {
	_, fields, ok := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return ok && fields[0] != "Z" // a zombie is nobody's but its parent's
}

// stat reads the name of a process, and what follows it: its state, its parent.
func stat(file string) (name string, fields []string, ok bool) {
	text, err := os.ReadFile(file)
	i := strings.LastIndexByte(string(text), ')')
	if err != nil || i < 0 {
		return "", nil, false
	}
	return string(text[:i]), strings.Fields(string(text[i+1:])), true
}

// Who ends ackproxy while a plugin does not come up does not wait for that.
func TestSignalWhileStarting(t *testing.T) {
	const shell = "/bin/sh"
	program, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	up := filepath.Join(t.TempDir(), "up")
	file := configFile(t, fmt.Sprintf("policies: [{name: slow, plugin: {path: %s, sha256: \"%x\", args: [-c, \"echo > %s; exec sleep 100\"]}}]\n", shell,
		sha256.Sum256(program), up))
	cmd := command(t, "run", "-c", file, "--listen", "127.0.0.1:0", "--admin", "none", "--audit", "none")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	for late := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(up); err == nil {
			break
		} else if time.Now().After(late) {
			t.Fatal("the plugin was not started")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "ended before it served") || strings.Contains(log.String(), "not healthy") {
		t.Errorf("%v\n%s", err, &log)
	}
}
