package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/policy/audit"
)

// load reads text as c.yaml.
func load(t *testing.T, text string, s Sources) (Config, Report) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("c.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.File = "c.yaml"
	return Load(s)
}

func lines(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

// builtins are as the command has them, nearly.
var builtins = map[string]Builtin{
	"chaos": {Decides: true},
	BuiltinAudit: {Check: func(p *Policy, _ string) error {
		_, err := audit.ReadConfig(p.Config)
		return err
	}},
}

// What belongs to a policy is handed on as JSON, whatever YAML it was written in.
func TestRaw(t *testing.T) {
	c, r := load(t, "policies:\n  - name: p\n    builtin: any\n    config:\n      a: &x [kafka:9092, 0x10, 1.5, true, ~, 'yes']\n      1: *x\n      t: |\n        text\n",
		Sources{Builtins: map[string]Builtin{"any": {Check: func(*Policy, string) error { return nil }}}})
	want := `{"1":["kafka:9092",16,1.5,true,null,"yes"],"a":["kafka:9092",16,1.5,true,null,"yes"],"t":"text\n"}`
	if len(r.Problems) > 0 || len(c.Policies) != 1 || string(c.Policies[0].Config) != want {
		t.Errorf("%s\nwant %s\n%v", c.Policies, want, lines(r.Problems))
	}
	_, r = load(t, "policies: [{name: p, builtin: any, config: {a: &a [1,1,1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], "+
		"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c], e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]}}]\n", Sources{})
	if got := strings.Join(lines(r.Problems), "\n"); !strings.Contains(got, "there are more than 100000 values") {
		t.Error(got)
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing written", "", ""},
		{"comments only", "# nothing\n", ""},
		{"empty section", "listen:\nadmin:\n", ""},
		{"unknown key", "listen:\n  bootstrp: a:1\n",
			"c.yaml:2:3: listen.bootstrp: unknown key (the nearest known key is listen.bootstrap)"},
		{"unknown section", "lisen: {}\n", "c.yaml:1:1: lisen: unknown key (the nearest known key is listen)"},
		{"key of another section", "broker_ports: {base: 5}\nmax_frame: 1KiB\n", strings.Join([]string{
			"c.yaml:1:1: broker_ports: unknown key (the nearest known key is protocol, the keys here are listen, upstream, protocol, policies, audit, admin, state, drain, log)",
			"c.yaml:2:1: max_frame: unknown key (the nearest known key is protocol.max_frame)"}, "\n")},
		{"duplicate key", "drain: {timeout: 1s}\nlog: {level: warn}\ndrain: {timeout: 2s}\n",
			"c.yaml:3:1: drain: the key is written twice (keep one, the first is in line 1)"},
		{"duplicate node", "upstream:\n  nodes:\n    1: a:1\n    1: b:1\n",
			"c.yaml:4:5: upstream.nodes.1: the key is written twice (keep one, the first is in line 3)"},
		{"one node by two names", "upstream: {nodes: {1: a:1, 01: b:1}}\n",
			"c.yaml:1:28: upstream.nodes.01: the key is written twice (keep one, the first is in line 1)"},
		{"byte order mark", "\ufefflog: {level: warn}\n", ""},
		{"all at once", "listen:\n  mode: sni\n  bootstrap: localhost\nprotocol:\n  max_frame: 100MB\n  header_timeout: 10\n", strings.Join([]string{
			"c.yaml:2:9: listen.mode: sni is not built yet (write ports)",
			`c.yaml:3:14: listen.bootstrap: "localhost": missing port in address (write host:port, as in kafka-1:9092 or [::1]:9092)`,
			"c.yaml:5:14: protocol.max_frame: the size 100MB has the unit MB (write 100MiB, which is 1048576 bytes each)",
			"c.yaml:6:19: protocol.header_timeout: the duration 10 has no unit (write 10s, or another of ms, s, m, h, d)"}, "\n")},
		{"redirect", "listen: {mode: redirect}\n", "c.yaml:1:16: listen.mode: redirect is not built yet (write ports)"},
		{"kafka sink", "audit: {sinks: [{type: kafka}]}\n", "c.yaml:1:24: audit.sinks[0].type: kafka is not built yet (write stdout or file)"},
		{"policies", "policies:\n  - {name: dlq, builtin: chaos}\n  - {name: dlq, builtin: chaox}\n  - {plugin: {path: p, sha256: 12}, on_failure: drop}\n  - {name: x}\n" +
			"  - {name: y, plugin: {path: /no/such, sha256: \"" + strings.Repeat("0", 64) + "\", files: [{path: f}]}}\n", strings.Join([]string{
			"c.yaml:2:26: policies[0].builtin: chaos is not built yet (write plugin: {path: …, sha256: …})",
			"c.yaml:3:12: policies[1].name: policies[0] is called dlq, too (give each a name of its own)",
			"c.yaml:3:26: policies[1].builtin: there is no built-in policy chaox (the nearest is chaos)",
			"c.yaml:4:5: policies[2].name: the policy has no name (write one, it stands in the audit log)",
			"c.yaml:4:32: policies[2].plugin.sha256: is a number where text is expected (write it in quotes: \"12\")",
			"c.yaml:4:49: policies[2].on_failure: \"drop\" is not a value of this setting (write forward, respond or close)",
			"c.yaml:5:5: policies[3].plugin: the policy has neither a plugin nor a built-in one (write plugin: {path: /opt/policy, sha256: …})",
			"c.yaml:6:30: policies[4].plugin.path: lstat /no: no such file or directory",
			"c.yaml:6:124: policies[4].plugin.files[0].sha256: \"\" is not a SHA-256: 64 hexadecimal digits are wanted, as sha256sum prints them",
			"c.yaml:6:131: policies[4].plugin.files[0].path: \"f\" is not an absolute path",
		}, "\n")},
		{"built-in", "policies:\n  - name: a\n    builtin: audit\n    on_failure: close\n    config:\n      sinks:\n        - {type: file, path: x}\n" +
			"        - {typ: file,\n           path: 7}\n  - {name: b, builtin: audit, timeout: 1s}\n  - {name: c, builtin: audit, config: {sinks: [{type: file, path: y}]}}\n" +
			"  - {name: d, builtin: audit, plugin: {path: /x}, config: {<<: 1, x: !y 2}}\n  - {name: e, builtin: zzz}\naudit: {sinks: [{type: file, path: x}, {type: file, path: y}]}\n", strings.Join([]string{
			"c.yaml:4:17: policies[0].on_failure: audit decides about no request (remove the key)",
			"c.yaml:8:12: policies[0].config.sinks[1].typ: unknown key (the keys here are path, type)",
			"c.yaml:9:12: policies[0].config.sinks[1].path: is a number where text is expected",
			"c.yaml:10:5: policies[1].config: the audit log has no sink (write sinks: [{type: file, path: /var/log/ackproxy/more.jsonl}])",
			"c.yaml:10:40: policies[1].timeout: audit decides about no request (remove the key)",
			"c.yaml:11:48: policies[2].config.sinks[0]: two sinks write to file:$DIR/y (give each a place of its own)",
			"c.yaml:12:39: policies[3].plugin: the policy is a built-in one and a plugin (keep one of them)",
			"c.yaml:12:60: policies[3].config.<<: merging mappings has no meaning here (write the keys themselves)",
			"c.yaml:12:70: policies[3].config.x: tags have no meaning here (write the value without !y)",
			"c.yaml:13:24: policies[4].builtin: there is no built-in policy zzz (write plugin: {path: …, sha256: …})",
		}, "\n")},
		{"no policies", "policies: []\n", ""},
		{"enum", "protocol: {unknown_apis: drop, sasl_v0: on, txn_share_acknowledge: {arm: maybe}}\n", strings.Join([]string{
			`c.yaml:1:26: protocol.unknown_apis: "drop" is not a value of this setting (write pass or hide)`,
			`c.yaml:1:41: protocol.sasl_v0: "on" is not a value of this setting (write known or relay)`,
			`c.yaml:1:74: protocol.txn_share_acknowledge.arm: "maybe" is not a value of this setting (write auto, always or never)`}, "\n")},
		{"wrong types", "listen: [1]\nupstream: {bootstrap: localhost:9092}\nstate: {dir: 5}\nadmin: {listen: {a: b}}\n", strings.Join([]string{
			"c.yaml:1:9: listen: is a list where keys are expected (write mode, bootstrap, advertise, broker_ports below it)",
			"c.yaml:2:23: upstream.bootstrap: is text where a list is expected (write [a, b], or one - a line)",
			`c.yaml:3:14: state.dir: is a number where text is expected (write it in quotes: "5")`,
			"c.yaml:4:17: admin.listen: is a mapping where a single value is expected (write one value)"}, "\n")},
		{"quoted number", "listen: {broker_ports: {base: \"19100\"}}\n",
			"c.yaml:1:31: listen.broker_ports.base: is text in quotes where a number is expected (write 19100 without quotes)"},
		{"ranges", "listen: {broker_ports: {base: 70000}}\nprotocol: {max_in_flight: 0, txn_share_acknowledge: {api_key: 79}}\n", strings.Join([]string{
			"c.yaml:1:31: listen.broker_ports.base: the port 70000 is out of range (write 1 to 65535)",
			"c.yaml:2:27: protocol.max_in_flight: the number 0 is out of range (write 1 to 1048576)",
			"c.yaml:2:63: protocol.txn_share_acknowledge.api_key: the key 79 is ShareAcknowledge (write 80, or the key that your build of Kafka uses, as 95)"}, "\n")},
		{"no value", "log: {level: }\nupstream:\n  bootstrap:\n  nodes:\npolicies:\n", strings.Join([]string{
			"c.yaml:1:7: log.level: has no value (write one, or remove the key)",
			"c.yaml:3:3: upstream.bootstrap: has no value (write one, or remove the key)",
			"c.yaml:4:3: upstream.nodes: has no value (write one, or remove the key)"}, "\n")},
		{"no upstream", "upstream: {bootstrap: []}\n", "c.yaml:1:23: upstream.bootstrap: no broker is given (write [host:port])"},
		{"one bad upstream", "upstream:\n  bootstrap:\n    - kafka://a:1\n    - :9092\n    - 9092\n", strings.Join([]string{
			`c.yaml:3:7: upstream.bootstrap[0]: "kafka://a:1" is a URL (write it without kafka://)`,
			`c.yaml:4:7: upstream.bootstrap[1]: ":9092" has no host (write host:port, as in kafka-1:9092)`,
			`c.yaml:5:7: upstream.bootstrap[2]: "9092" has no host (write 127.0.0.1:9092)`}, "\n")},
		{"nodes", "upstream: {nodes: {x: a:1, 2: b:0}}\n", strings.Join([]string{
			`c.yaml:1:20: upstream.nodes.x: "x" is not a number (write a whole number)`,
			`c.yaml:1:31: upstream.nodes.2: "b:0": the port "0" is out of range (write a port of 1 to 65535)`}, "\n")},
		{"pattern", "upstream: {host_pattern: kafka:9092}\n",
			`c.yaml:1:26: upstream.host_pattern: the pattern "kafka:9092" has no {id} (write it as in kafka-{id}:9092)`},
		{"advertise", "listen: {advertise: 0.0.0.0}\n",
			"c.yaml:1:21: listen.advertise: 0.0.0.0 is no address that a client can connect to (write the name or address that clients use)"},
		{"itself", "upstream: {bootstrap: [localhost:19092]}\nadmin: {listen: 127.0.0.1:19092}\n", strings.Join([]string{
			"c.yaml:1:24: upstream.bootstrap[0]: the upstream localhost:19092 is the proxy's own listener (write the address of a broker)",
			"c.yaml:2:17: admin.listen: the admin server has the address of listen.bootstrap, 127.0.0.1:19092 (give them different ports)"}, "\n")},
		{"port twice", "listen: {broker_ports: {base: 19091}}\nupstream: {nodes: {1: a:1}}\n",
			"c.yaml:1:31: listen.broker_ports.base: node 1 would be served on the port of listen.bootstrap, 19092 (choose another base)"},
		{"port of admin", "upstream: {nodes: {4: a:1}}\nlisten: {broker_ports: {base: 29460}}\nadmin: {listen: \":29464\"}\n",
			"c.yaml:2:31: listen.broker_ports.base: node 4 would be served on the port of admin.listen, 29464 (choose another base)"},
		{"port beyond the last", "upstream: {nodes: {60000: a:1}}\n",
			"c.yaml:1:27: upstream.nodes.60000: the node would be served on port 79100, which does not exist (lower listen.broker_ports.base)"},
		{"sinks", "audit:\n  sinks:\n    - {type: file}\n    - {path: /x}\n    - {type: file, path: a/../b}\n    - {type: file, path: b}\n    - {type: stdout, path: b}\n", strings.Join([]string{
			"c.yaml:3:7: audit.sinks[0]: the file sink has no path (write {type: file, path: /var/log/ackproxy/audit.jsonl})",
			"c.yaml:4:7: audit.sinks[1]: the sink has no type (write {type: stdout} or {type: file, path: …})",
			"c.yaml:6:7: audit.sinks[3]: two sinks write to file:$DIR/b (give each a place of its own)",
			"c.yaml:7:7: audit.sinks[4]: stdout has no path (write {type: stdout}, or {type: file, path: …})"}, "\n")},
		{"syntax", "listen: {mode: ports\nadmin: 1\n", "c.yaml:2:1: YAML: not valid YAML: ',' or '}' must be specified"},
		{"tab", "listen:\n\tmode: ports\n", "c.yaml:2:1: YAML: not valid YAML: found character tab that cannot start any token"},
		{"two documents", "log: {level: info}\n---\nlog: {level: info}\n", "c.yaml:3:1: YAML: a second document in the file (keep one document, without ---)"},
		{"alias", "upstream: {bootstrap: [&k \"kafka:9092\"], nodes: {1: *k, 2: *z}}\n",
			"c.yaml:1:60: upstream.nodes.2: there is no anchor z (write the value itself)"},
		{"merge", "x: &a {level: warn}\nlog: {<<: *a}\n", strings.Join([]string{
			"c.yaml:1:1: x: unknown key (the nearest known key is log, the keys here are listen, upstream, protocol, policies, audit, admin, state, drain, log)",
			"c.yaml:2:7: log.<<: merging mappings has no meaning here (write the keys themselves)"}, "\n")},
		{"not a mapping", "hello\n",
			"c.yaml:1:1: the file: is text where keys are expected (write listen, upstream, protocol, policies, audit, admin, state, drain, log below it)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, r := load(t, c.text, Sources{Builtins: builtins})
			dir, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll(strings.Join(lines(r.Problems), "\n"), dir, "$DIR")
			if got != c.want {
				t.Errorf("problems:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	file := "drain: {timeout: 2s}\nlog: {level: warn}\nupstream: {bootstrap: [file:1]}\nlisten: {broker_ports: {base: 1000}}\n"
	environ := []string{"ACKPROXY_LOG_LEVEL=error", "ACKPROXY_UPSTREAM_BOOTSTRAP=env:1, env:2", "ACKPROXY_LISTEN_BROKER_PORTS_BASE=2000",
		"ACKPROXY_STATE_DIR=", "HOME=/"}
	c, r := load(t, file, Sources{Environ: environ, Flags: []Flag{{"--broker-ports", "listen.broker_ports.base", "3000"}}})
	if len(r.Problems)+len(r.Warnings) > 0 {
		t.Fatal(lines(r.Problems), lines(r.Warnings))
	}
	if c.Drain.Timeout.String() != "2s" || c.Log.Level != "error" || c.Listen.BrokerPorts.Base != 3000 {
		t.Errorf("got drain %v, level %v, base %v", c.Drain.Timeout, c.Log.Level, c.Listen.BrokerPorts.Base)
	}
	if !slices.Equal(c.Upstream.Bootstrap, []HostPort{"env:1", "env:2"}) {
		t.Errorf("upstream %v", c.Upstream.Bootstrap)
	}
	if c.State.Dir != Defaults().State.Dir {
		t.Errorf("an empty variable set state.dir to %q", c.State.Dir)
	}
}

func TestEnvironmentAndFlagProblems(t *testing.T) {
	_, r := load(t, "log: {level: loud}\n", Sources{
		Environ: []string{"ACKPROXY_PROTOCOL_MAX_FRAME=5MB", "ACKPROXY_LOG_LEVL=info", "ACKPROXY_PORT=tcp://10.0.0.1:80", "ACKPROXY_ADMIN_LISTEN=x"},
		Flags:   []Flag{{"--listen", "listen.bootstrap", "a:b"}, {"--state", "state.dir", ""}},
		Audit:   []string{"none", "file:", "kafka", "jsonl:x"},
	})
	want := strings.Join([]string{
		`c.yaml:1:14: log.level: "loud" is not a value of this setting (write trace, debug, info, warn or error)`,
		`environment: ACKPROXY_ADMIN_LISTEN: "x": missing port in address (write host:port, as in kafka-1:9092 or [::1]:9092, or none)`,
		"environment: ACKPROXY_PROTOCOL_MAX_FRAME: the size 5MB has the unit MB (write 5MiB, which is 1048576 bytes each)",
		`flags: --listen: "a:b": the port "b" is out of range (write a port of 0 to 65535)`,
		"flags: --state: has no value (write one, or leave it out)",
		"flags: --audit: none stands beside other sinks (give none alone, or leave it out)",
		"flags: --audit: kafka is not built yet (write stdout, file:PATH or none)",
		`flags: --audit: "jsonl" is not a value of this setting (write stdout, file:PATH or none)`,
		"flags: --audit: the file sink has no path (write {type: file, path: /var/log/ackproxy/audit.jsonl})",
	}, "\n")
	if got := strings.Join(lines(r.Problems), "\n"); got != want {
		t.Errorf("problems:\n%s\nwant:\n%s", got, want)
	}
	wantWarnings := strings.Join([]string{
		"environment: ACKPROXY_LOG_LEVL: no setting has this variable, it is ignored (the nearest is ACKPROXY_LOG_LEVEL)",
		"environment: ACKPROXY_PORT: no setting has this variable, it is ignored (Kubernetes sets it for a Service of that name; enableServiceLinks: false ends that)",
	}, "\n")
	if got := strings.Join(lines(r.Warnings), "\n"); got != wantWarnings {
		t.Errorf("warnings:\n%s\nwant:\n%s", got, wantWarnings)
	}
}

// A list that is replaced is told of by what replaces it, and not by the place in the file of what it had.
func TestReplacedList(t *testing.T) {
	file := "upstream:\n  bootstrap: [kafka:9092]\n"
	for want, s := range map[string]Sources{
		"environment: ACKPROXY_UPSTREAM_BOOTSTRAP": {Environ: []string{"ACKPROXY_UPSTREAM_BOOTSTRAP=127.0.0.1:19092"}},
		"flags: --upstream":                        {Flags: []Flag{{"--upstream", "upstream.bootstrap", "127.0.0.1:19092"}}},
	} {
		_, r := load(t, file, s)
		want += ": the upstream 127.0.0.1:19092 is the proxy's own listener (write the address of a broker)"
		if got := strings.Join(lines(r.Problems), "\n"); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A variable that somebody has misspelt is not taken for one of Kubernetes.
func TestEnvironmentHints(t *testing.T) {
	const kubernetes = "(Kubernetes sets it for a Service of that name; enableServiceLinks: false ends that)"
	for variable, want := range map[string]string{
		"ACKPROXY_LISTEN_BROKER_PORT_BASE=19100":    "(the nearest is ACKPROXY_LISTEN_BROKER_PORTS_BASE)",
		"ACKPROXY_PORT=tcp://10.0.0.1:9092":         kubernetes,
		"ACKPROXY_SERVICE_HOST=10.0.0.1":            kubernetes,
		"ACKPROXY_SERVICE_PORT=9092":                kubernetes,
		"ACKPROXY_SERVICE_PORT_BROKER_1=19101":      kubernetes,
		"ACKPROXY_EDGE_PORT_9092_TCP_ADDR=10.0.0.1": kubernetes,
		"ACKPROXY_EDGE_PORT_9092_TCP_PROTO=tcp":     kubernetes,
	} {
		_, r := load(t, "", Sources{Environ: []string{variable}})
		if got := strings.Join(lines(r.Warnings), "\n"); !strings.HasSuffix(got, want) || len(r.Problems) > 0 {
			t.Errorf("%s: %q\nwant %s", variable, got, want)
		}
	}
}

func TestAuditFlagReplacesSinks(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  []Sink
	}{
		{nil, []Sink{{SinkFile, "/a"}}},
		{[]string{"none"}, nil},
		{[]string{"stdout", "file:/b:c"}, []Sink{{Type: SinkStdout}, {SinkFile, "/b:c"}}},
	} {
		got, r := load(t, "audit: {sinks: [{type: file, path: /a}]}\n", Sources{Audit: c.flags})
		if len(r.Problems) > 0 || !slices.Equal(got.Audit.Sinks, c.want) {
			t.Errorf("--audit %v: %v, %v", c.flags, got.Audit.Sinks, lines(r.Problems))
		}
	}
}

func TestAdvertiseWarning(t *testing.T) {
	_, r := load(t, "listen: {bootstrap: 0.0.0.0:19092}\n", Sources{})
	want := "c.yaml:1:21: listen.bootstrap: the proxy listens on 0.0.0.0 but tells clients 127.0.0.1 " +
		"(set listen.advertise to a name that clients on other hosts reach, unless there are none)"
	if got := strings.Join(lines(r.Warnings), "\n"); got != want || len(r.Problems) > 0 {
		t.Errorf("warnings %q, problems %v", got, lines(r.Problems))
	}
}

func TestMissingFile(t *testing.T) {
	t.Chdir(t.TempDir())
	_, r := Load(Sources{File: "none.yaml"})
	want := "none.yaml: the file cannot be read: no such file or directory (give an existing file with -c, or none)"
	if got := strings.Join(lines(r.Problems), "\n"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
