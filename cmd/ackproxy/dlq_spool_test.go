package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/dlq/redrive"
	"github.com/ackproxy/ackproxy/policy/dlq/spool"
)

// withSpool writes a spool as the policy dead does: letters 0 and 1 for dlq.orders, 2 for the cluster archive, 3 refused, and an entry that is
// none. The spool stays open, as that of a proxy which runs.
func withSpool(t *testing.T) (state string) {
	t.Helper()
	state = t.TempDir()
	s, err := spool.Open(filepath.Join(state, "dlq-dead"), spool.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	add := func(queue string, data []byte) {
		q, err := s.Queue(queue)
		if err = errors.Join(err, q.Append(t.Context(), data)); err != nil {
			t.Fatal(err)
		}
	}
	for i, queue := range []string{"@dlq.orders", "@dlq.orders", "archive@dlq.orders", "@dlq.orders!refused"} {
		cluster, _, _ := strings.Cut(queue, "@")
		l := letter.Letter{Group: "billing", Topic: "orders", TopicID: codec.UUID{1}, Offset: int64(i), Reason: letter.ClientReject,
			Payload: letter.Full, Time: time.Now().Add(-3 * time.Hour)}
		r := letter.Record{Cluster: cluster, Topic: "dlq.orders", Value: []byte("secret"), Headers: l.Headers(letter.KIP1191)}
		add(queue, r.Append(nil))
	}
	add("@dlq.orders", []byte("from the future"))
	return state
}

func dlqConfig(t *testing.T, bootstrap, state string) string {
	return configFile(t, fmt.Sprintf("state: {dir: %q}\npolicies:\n  - {name: dead, builtin: dlq, config: {cluster: {bootstrap: [%q]}, "+
		"clusters: {archive: {bootstrap: [\"archive:9092\"]}}}}\n", state, bootstrap))
}

// rowsOf are the rows of an inspect, each in a line: where, cluster, refused and the number of letters.
func rowsOf(t *testing.T, r result) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(r.out) {
		var row redrive.Row
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.DLQ != "dlq.orders" || row.Topic != "orders" {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, fmt.Sprintf("%s %q %v %d", row.Where, row.Cluster, row.Refused, row.Letters))
	}
	return strings.Join(all, ", ")
}

func TestDLQInspectSpool(t *testing.T) {
	state, at := withSpool(t), withLetters(t, 3)
	const waiting = `spool "" false 2, spool "" true 1, spool "archive" false 1`
	file := dlqConfig(t, at, state)
	inspect := func(args ...string) result {
		return inProcess(t, append([]string{"dlq", "inspect", "-o", "json"}, args...)...)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all":             {[]string{"-c", file}, `topic "" false 3, ` + waiting},
		"a filter":        {[]string{"-c", file, "--filter", "offset=1"}, `topic "" false 1, spool "" false 1`},
		"a topic":         {[]string{"-c", file, "--topic", "dlq.orders"}, `topic "" false 3, ` + waiting},
		"a spool alone":   {[]string{"--spool", filepath.Join(state, "dlq-dead")}, waiting},
		"another topic":   {[]string{"--spool", filepath.Join(state, "dlq-dead"), "--topic", "dlq.other"}, ""},
		"another spool":   {[]string{"--bootstrap", at, "--spool", filepath.Join(state, "dlq-dead")}, `topic "" false 3, ` + waiting},
		"without a spool": {[]string{"-c", dlqConfig(t, at, t.TempDir())}, `topic "" false 3`},
	} {
		if r := inspect(c.args...); r.status != 0 || r.err != "" || rowsOf(t, r) != c.want {
			t.Errorf("%s: status %d, %s\n%swant %s", name, r.status, r.err, r.out, c.want)
		}
	}
	r := inProcess(t, "dlq", "inspect", "-c", file)
	for _, want := range []string{"WHERE", "spool (refused)", "spool (for archive)", "1 records are no dead letters\n"} {
		if r.status != 0 || !strings.Contains(r.out, want) || strings.Contains(r.out, "secret") {
			t.Errorf("no %q in status %d: %s%s", want, r.status, r.out, r.err)
		}
	}
	var one redrive.Letter
	r = inspect("--letters", "--filter", "offset=2", "--spool", filepath.Join(state, "dlq-dead"))
	if err := json.Unmarshal([]byte(r.out), &one); err != nil || one.Where != redrive.InSpool || one.Offset != -1 || one.SourceOffset != 2 || one.ValueBytes != 6 {
		t.Errorf("%s: %v", r.out, err)
	}
	r = inProcess(t, "dlq", "inspect", "--letters", "--spool", filepath.Join(state, "dlq-dead"), "--filter", "offset=3")
	if !strings.HasPrefix(r.out, "dlq.orders/spool (refused)\torders/0/3\tbilling\t") {
		t.Error(r.out)
	}
}

// What waits is shown although no broker answers, and the status says that this is not all.
func TestDLQInspectWithoutBrokers(t *testing.T) {
	file := dlqConfig(t, hangsUp(t), withSpool(t))
	r := inProcess(t, "dlq", "inspect", "-c", file, "-o", "json", "--topic", "dlq.orders", "--spool", t.TempDir())
	if r.status != 1 || !strings.Contains(r.err, "no such file") {
		t.Errorf("no spool at all: status %d: %s%s", r.status, r.out, r.err)
	}
	r = inProcess(t, "dlq", "inspect", "-c", file, "-o", "json", "--topic", "dlq.orders")
	if want := `spool "" false 2, spool "" true 1, spool "archive" false 1`; r.status != 1 || r.err == "" || rowsOf(t, r) != want {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
	if r = inProcess(t, "dlq", "inspect", "--spool", "x", "--policy", "dead"); r.status != 2 || !strings.Contains(r.err, "--policy") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}

// A spool is shown by the name of its policy, also where the policy has it no more; and who looks in a place where no proxy runs is told so.
func TestDLQInspectSpoolElsewhere(t *testing.T) {
	state, at := withSpool(t), withLetters(t, 3)
	text := func(state string) string {
		return fmt.Sprintf("state: {dir: %q}\npolicies:\n  - {name: dead, builtin: dlq, config: {cluster: {bootstrap: [%q]}, "+
			"on_failure: [release, withhold]}}\n", state, at)
	}
	r := inProcess(t, "dlq", "inspect", "-c", configFile(t, text(state)), "-o", "json")
	if want := `topic "" false 3, spool "" false 2, spool "" true 1, spool "archive" false 1`; r.status != 0 || r.err != "" || rowsOf(t, r) != want {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
	nowhere := filepath.Join(t.TempDir(), "state")
	r = inProcess(t, "dlq", "inspect", "-c", configFile(t, text(nowhere)), "-o", "json")
	want := "no spool was looked into: there is no state.dir " + nowhere + " here (--spool names one)\n"
	if r.status != 0 || rowsOf(t, r) != `topic "" false 3` || r.err != want {
		t.Errorf("status %d: %s%s", r.status, r.out, r.err)
	}
}

// Letters that a policy left in its spool when it was renamed, removed, or had its choice of a spool taken away, are warned of: they may be the only
// copies.
func TestStrandedSpool(t *testing.T) {
	state := withSpool(t)
	if err := errors.Join(os.Mkdir(filepath.Join(state, "dlq-empty"), 0o700), os.Mkdir(filepath.Join(state, "other"), 0o700)); err != nil {
		t.Fatal(err)
	}
	const policy = "policies:\n  - {name: %s, builtin: dlq, config: {cluster: {bootstrap: [localhost:1]}, on_failure: %s}}\n"
	for name, c := range map[string]struct {
		policies string
		warned   bool
	}{
		"the policy has it":   {fmt.Sprintf(policy, "dead", "[spool, withhold]"), false},
		"another choice":      {fmt.Sprintf(policy, "dead", "[release, withhold]"), true},
		"another name":        {fmt.Sprintf(policy, "letters", "[spool, withhold]"), true},
		"no policy":           {"", true},
		"a wrong one is told": {fmt.Sprintf(policy, "dead", "[spool]"), false},
	} {
		r := inProcess(t, "validate", "-c", configFile(t, fmt.Sprintf("state: {dir: %q}\n", state)+c.policies))
		want := "state.dir: dead letters wait in " + filepath.Join(state, "dlq-dead") + ", and no policy delivers them (have a policy \"dead\" of builtin dlq"
		if got := strings.Contains(r.err, want); got != c.warned || strings.Count(r.err, "\n") > 1 {
			t.Errorf("%s: status %d: %s%s", name, r.status, r.out, r.err)
		}
	}
	if r := inProcess(t, "validate", "-c", configFile(t, "state: {dir: \"\"}\n")); r.status != 0 || r.err != "" {
		t.Errorf("without a state directory: status %d: %s%s", r.status, r.out, r.err)
	}
	c := config.Defaults()
	c.State.Dir = state
	if got := stranded(c, ""); len(got) != 1 {
		t.Errorf("warnings %v", got)
	}
	c.Policies = []config.Policy{{Name: "letters", Plugin: config.Plugin{Args: []string{"-state", state}}}}
	if got := stranded(c, ""); len(got) > 0 {
		t.Errorf("a plugin that may have it: %v", got)
	}
	// It ends at its start, since the address is taken.
	out, _ := command(t, "run", "--listen", hangsUp(t), "--admin", "none", "--audit", "none", "--state", state).CombinedOutput()
	if !strings.Contains(string(out), `"level":"warn"`) || !strings.Contains(string(out), "no policy delivers them") {
		t.Errorf("run says %s", out)
	}
}
