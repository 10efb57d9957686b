package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be ackproxy, or a plugin of it, so that tests see real processes: exit statuses, signals, pipes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == pluginArg {
		servePlugin()
	}
	if os.Getenv("TEST_AS_ACKPROXY") != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is ackproxy with these arguments. It sees none of the settings of whoever runs the tests.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "ACKPROXY_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "TEST_AS_ACKPROXY=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// result is how a process ended.
type result struct {
	status   int
	out, err string
}

// inProcess runs a command that ends by itself, in a directory of its own and without the settings of whoever runs the tests.
func inProcess(t *testing.T, args ...string) result {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "ACKPROXY_") {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	status := execute(args, strings.NewReader(""), &out, &errs)
	return result{status, out.String(), errs.String()}
}

func TestExitStatuses(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		out    string // in standard output
		err    string // in standard error
	}{
		{"", 0, "Usage:", ""},
		{"-h", 0, "Examples:", ""},
		{"help run", 0, "ACKPROXY_LISTEN_BROKER_PORTS_BASE", ""},
		{"run -h", 0, "ACKPROXY_PROTOCOL_TXN_SHARE_ACKNOWLEDGE_API_KEY", ""},
		{"version", 0, "kafka schema 4.4", ""},
		{"--version", 0, "ackproxy version", ""},
		{"version -o yaml", 2, "", `write text or json`},
		{"version extra", 2, "", `ackproxy version -h shows`},
		{"nosuch", 2, "", `unknown command "nosuch"`},
		{"decode --nosuch", 2, "", "unknown flag: --nosuch"},
		{"decode a b", 2, "", "at most 1 arg"},
		{"decode --hex xyz", 2, "", "--hex"},
		{"decode --hex 00 file", 2, "", "exclude each other"},
		{"decode --request --response --api-key 79 --api-version 1", 2, "", "exclude each other"},
		{"decode --response --api-key 79", 2, "", "--api-version"},
		{"decode --api-key 79", 2, "", "belong to --response"},
		{"decode --txn-api-key 79 --hex 00", 2, "", "ShareAcknowledge"},
		{"decode missing.bin", 1, "", "no such file"},
		{"decode", 1, "", "the input is empty"},
		{"decode --hex 00", 1, "anomalous", ""},
		{"validate", 0, "defaults and environment: ok", ""},
		{"validate -c missing.yaml", 2, "missing.yaml: the file cannot be read", ""},
		{"run -c missing.yaml", 2, "", "missing.yaml: the file cannot be read"},
		{"run --config=", 2, "", "-c: the name of the file is empty"},
		{"run --listen nowhere", 2, "", "flags: --listen:"},
		{"run --audit none --audit stdout", 2, "", "flags: --audit: none stands beside other sinks"},
		{"run --audit kafka", 2, "", "kafka is not built yet"},
		{"tail --group g", 2, "", "tail is not built yet"},
		{"explain", 2, "", "explain is not built yet"},
		{"audit verify x", 2, "", "audit is not built yet"},
		{"chaos list", 2, "", "chaos is not built yet"},
		{"plugins", 0, "ackproxy plugins list", ""},
		{"plugins list", 0, "", "no policy is configured"},
		{"plugins list -c missing.yaml", 2, "", "missing.yaml: the file cannot be read"},
		{"plugins list x", 2, "", "ackproxy plugins list -h shows"},
		{"plugins check", 2, "", "no plugin is configured"},
		{"plugins check nobody", 2, "", "there is no policy nobody; the plugins are none"},
		{"plugins check --path /x", 2, "", "--sha256 is missing: write what sha256sum /x prints"},
		{"plugins check --socket-dir /tmp", 2, "", "--socket-dir belongs to --path"},
		{"plugins check --path /no/x --sha256 0 --socket-dir /no/folder", 1, "/no/folder", ""},
		{"plugins check --sha256 0", 2, "", "--sha256 belongs to --path"},
		{"plugins check --path /x --sha256 0 name", 2, "", "exclude each other"},
		{"plugins check --path /x --sha256 0 --settings {", 2, "", "--settings is not JSON"},
		{"plugins check --path /x --sha256 0 --file y", 2, "", "--file y: write PATH=SHA256"},
		{"plugins check --path /x --sha256 0 --rounds 0", 2, "", "--rounds: write 1 to 1000000"},
		{"plugins check --path /no/x --sha256 0", 1, "FAILED: it does not start", ""},
		{"dlq", 0, "Usage:", ""},
		{"dlq inspect", 2, "", "no policy of builtin dlq"},
		{"dlq inspect --bootstrap localhost:1 -c x.yaml", 2, "", "exclude each other"},
		{"dlq inspect --bootstrap localhost:1 --filter colour=red", 2, "", `there is no key "colour"`},
		{"dlq redrive --bootstrap localhost:1", 2, "", "--topic is missing"},
		{"dlq redrive --bootstrap localhost:1 --topic a --to a", 2, "", "redriven to itself"},
		{"dlq redrive --bootstrap localhost:1 --topic a --rate -1", 2, "", "not negative"},
		{"tail -h", 0, "not built yet", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := inProcess(t, strings.Fields(c.args)...)
			if r.status != c.status || !strings.Contains(r.out, c.out) || !strings.Contains(r.err, c.err) {
				t.Errorf("status %d, want %d\nout: %s\nerr: %s", r.status, c.status, r.out, r.err)
			}
			if c.err == "" && r.err != "" || c.out == "" && r.out != "" {
				t.Errorf("nothing was to be written there\nout: %s\nerr: %s", r.out, r.err)
			}
			if strings.Contains(r.out+r.err, "\x1b") {
				t.Error("colour without a terminal")
			}
		})
	}
}

// Every command shows an example and says what it is.
func TestHelp(t *testing.T) {
	root := newRootCmd()
	all := append(root.Commands(), root)
	for _, c := range root.Commands() {
		all = append(all, c.Commands()...)
	}
	for _, c := range all {
		if c.Example == "" || c.Short == "" || !strings.Contains(c.Example, root.Name()+" ") {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
	}
}

func TestVersionJSON(t *testing.T) {
	r := inProcess(t, "version", "-o", "json")
	var v map[string]string
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"version", "commit", "kafka_schema", "go_version"} {
		if v[k] == "" {
			t.Errorf("%s is missing in %s", k, r.out)
		}
	}
	if v["kafka_schema"] != "4.4" || len(v) != 4 {
		t.Error(r.out)
	}
}

// A reader that has seen enough ends the command, without a word.
func TestBrokenPipe(t *testing.T) {
	cmd := command(t, "decode")
	cmd.Stdin = strings.NewReader(strings.Repeat(golden(t)["share_ack_req_v1_mixed_gap"].Hex, 2000))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Error(err)
	}
	out.Close()
	err = cmd.Wait()
	if errs.Len() > 0 {
		t.Errorf("wrote %q", errs.String())
	}
	if err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("ended with %v, want the end by SIGPIPE", err)
	}
}

// Whoever redirects what a command prints learns when it could not be written.
func TestNothingCanBePrinted(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "-o", "json"}, {"decode", "--hex", "0000001c004f00010000000700056170702d31036731036d31ffffffff0100"}, {"validate"}, {"-h"}} {
		var errs bytes.Buffer
		if status := execute(args, strings.NewReader(""), fullDisk{}, &errs); status != statusNo || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: status %d: %s", args, status, &errs)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
