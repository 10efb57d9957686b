package dlq

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`{
		"cluster": {"bootstrap": ["k:9092"], "tls": {"ca": "/ca"}, "sasl": {"mechanism": "SCRAM-SHA-512", "username": "u", "password_file": "/p"}},
		"clusters": {"east": {"bootstrap": ["e:1"]}}, "source": {"bootstrap": ["s:1"]},
		"topic": "dead.{group}.{topic}", "allowed_prefix": "dead.",
		"rules": [{"match": {"group": "pay*", "topic": "a?c", "principal": "User:x"}, "topic": "dead.pay", "cluster": "east"}],
		"create": {"partitions": 6, "replication": 3, "retention": "30d"}, "profile": "spring", "timestamp": "original",
		"on": ["reject"], "on_failure": ["release", "close"], "transactions": "queue", "too_large": "on_failure", "unavailable": "on_failure",
		"budget": "1s500ms", "max_letters": 10, "memory": "128MiB", "max_record": 65536, "spool": {"max_bytes": "2GiB", "max_age": "1d12h"},
		"breaker": {"rate": 5, "window": "1m", "open": "pass", "probe": "2m"}, "stand_down": "never", "redeadletter": true, "infer": true,
		"group": {"delivery_limit": 7, "lock": "1m"}, "reasons": {"listen": "[::1]:9465", "keep": 5}}`))
	if err != nil {
		t.Fatal(err)
	}
	rule := c.Rules[0]
	if !rule.Group.Match("payments") || rule.Group.Match("repay") || !rule.Topic.Match("abc") || rule.Topic.Match("a.bc") {
		t.Errorf("rule %+v", rule)
	}
	c.Rules = nil
	want := Config{
		Cluster:  Cluster{[]string{"k:9092"}, &TLS{CA: "/ca"}, &SASL{"SCRAM-SHA-512", "u", "/p"}},
		Clusters: map[string]Cluster{"east": {Bootstrap: []string{"e:1"}}}, Source: &Cluster{Bootstrap: []string{"s:1"}},
		Topic: "dead.{group}.{topic}", AllowedPrefix: "dead.", Create: &Create{6, 3, 30 * 24 * time.Hour},
		Profile: letter.Spring, OriginalTimestamp: true, OnReject: true, OnFailure: []Choice{Release, Close}, QueueTransactions: true, TooLargeFails: true, UnavailableFails: true,
		Budget: 1500 * time.Millisecond, MaxLetters: 10, Memory: 128 << 20, MaxRecord: 65536, SpoolBytes: 2 << 30, SpoolAge: 36 * time.Hour,
		Breaker: &Breaker{5, time.Minute, true, 2 * time.Minute}, Redeadletter: true, Infer: true, DeliveryLimit: 7, Lock: time.Minute,
		Reasons: &Reasons{"[::1]:9465", 5},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v\ninstead of\n%+v", c, want)
	}
}

func TestMistakes(t *testing.T) {
	const good = `"cluster": {"bootstrap": ["k:9092"]}`
	for config, keys := range map[string]string{
		``:      "cluster.bootstrap",
		`[]`:    "; cluster.bootstrap",
		`{"x":`: "; cluster.bootstrap",
		`{"cluster": {"bootstrap": ["k"], "sasl": {"mechanism": "GSSAPI"}, "tls": {"cert": "c"}, "x": 1}, "topic": "{topic}", "budget": "1", "memory": "1MB"}`: "budget; cluster.sasl.mechanism; cluster.x; " +
			"cluster.bootstrap[0]; cluster.tls; cluster.sasl.mechanism; cluster.sasl.username; cluster.sasl.password_file; memory; topic",
		`{` + good + `, "topic": "dead.{topic}"}`: "topic",
		`{` + good + `, "topic": "dlq.{x}"}`:      "topic",
		`{` + good + `, "topic": "dlq.a b"}`:      "topic",
		`{` + good + `, "rules": [{"match": {"topic": "a"}, "topic": "x"}, {"match": {"topic": "b"}, "topic": "dlq.x", "cluster": "no"}, {"match": {}}]}`: "rules[0].topic; rules[1].cluster; rules[2]",
		`{` + good + `, "on": [], "on_failure": ["withhold", "release", "spool", "release", "x"]}`:                                                        "on_failure[4]; on_failure[0]; on_failure[3]; on",
		`{` + good + `, "on_failure": ["spool"]}`: "on_failure",
		`{"cluster": {"bootstrap": ["k:0", "k:65536", "k:http", "k:-1", "k:", ":9", "k:+9", "k:1"]}}`: "cluster.bootstrap[0]; cluster.bootstrap[1]; " +
			"cluster.bootstrap[2]; cluster.bootstrap[3]; cluster.bootstrap[4]; cluster.bootstrap[5]; cluster.bootstrap[6]",
		`{` + good + `, "memory": "1025GiB"}`:                         "memory",
		`{` + good + `, "transactions": "abort"}`:                     "transactions",
		`{` + good + `, "memory": "1025GiB", "max_record": "513MiB"}`: "max_record; memory",
		`{` + good + `, "on_failure": []}`:                            "on_failure",
		`{` + good + `, "memory": "1MiB", "max_letters": 0}`:          "max_letters; memory",
		`{` + good + `, "rules": [{"match": {"group": "", "topic": "pay/*", "principal": "alice"}, "topic": "dlq.a"}]}`: "rules[0].match.group; rules[0].match.topic; rules[0].match.principal",
		`{` + good + `, "rules": [{"match": {"topic": "", "principal": "*e"}, "topic": "dlq.a"}]}`:                      "rules[0].match.topic",
		`{` + good + `, "reasons": {"listen": "0.0.0.0:1"}, "clusters": {"a@b": {"bootstrap": ["k:1"]}}}`:               "clusters.a@b; reasons.listen",
		`{` + good + `, "source": {}, "create": {"replication": 0}, "group": 1, "spool": {"max_age": "1s"}}`:            "create.replication; group; source.bootstrap; spool.max_age",
	} {
		_, err := Parse([]byte(config))
		got := strings.Join(mistaken(t, err), "; ")
		if got != keys {
			t.Errorf("%s\nmistakes in %s\ninstead of   %s\n%v", config, got, keys, err)
		}
	}
}

// mistaken are the keys of joined ConfigErrors.
func mistaken(t *testing.T, err error) (keys []string) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("not joined: %v", err)
	}
	for _, one := range joined.Unwrap() {
		var mistake *policy.ConfigError
		if !errors.As(one, &mistake) || mistake.Problem == "" {
			t.Fatalf("not a ConfigError: %v", one)
		}
		keys = append(keys, mistake.Key)
	}
	return keys
}

// TestNewFails names the key whose files are not there, and leaves nothing behind. What New refuses for what is configured, CheckClients does.
func TestNewFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	rubbish := filepath.Join(t.TempDir(), "rubbish")
	if err := os.WriteFile(rubbish, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	const cluster = `{"cluster": {"bootstrap": ["k:1"]}, `
	for config, key := range map[string]string{
		`{"cluster": {"bootstrap": ["k:1"], "tls": {"ca": "MISSING"}}}`:                                                                 "cluster.tls.ca",
		`{"cluster": {"bootstrap": ["k:1"], "tls": {"ca": "RUBBISH"}}}`:                                                                 "cluster.tls.ca",
		`{"cluster": {"bootstrap": ["k:1"], "tls": {"cert": "RUBBISH", "key": "RUBBISH"}}}`:                                             "cluster.tls.cert",
		`{"cluster": {"bootstrap": ["k:1"], "tls": {"cert": "MISSING", "key": "RUBBISH"}}}`:                                             "cluster.tls.cert",
		`{"cluster": {"bootstrap": ["k:1"], "tls": {"cert": "RUBBISH", "key": "MISSING"}}}`:                                             "cluster.tls.key",
		cluster + `"clusters": {"east": {"bootstrap": ["k:1"], "tls": {"ca": "MISSING"}}}}`:                                             "clusters.east.tls.ca",
		cluster + `"source": {"bootstrap": ["k:1"], "sasl": {"mechanism": "PLAIN", "username": "u", "password_file": "MISSING"}}}`:      "source.sasl.password_file",
		cluster + `"source": {"bootstrap": ["k:1"], "tls": {"ca": "RUBBISH"}}}`:                                                         "source.tls.ca",
		cluster + `"clusters": {"a": {"bootstrap": ["k:1"], "sasl": {"mechanism": "PLAIN", "username": "u", "password_file": "DIR"}}}}`: "clusters.a.sasl.password_file",
	} {
		config = strings.NewReplacer("MISSING", missing, "RUBBISH", rubbish, "DIR", filepath.Dir(missing)).Replace(config)
		_, err := New(t.Context(), "dlq", []byte(config), Deps{StateDir: t.TempDir()})
		var mistake *policy.ConfigError
		if !errors.As(err, &mistake) || mistake.Key != key {
			t.Errorf("%s: %v", config, err)
		}
		c, err := Parse([]byte(config))
		if err != nil {
			t.Fatal(err)
		}
		if got := mistaken(t, c.CheckClients()); len(got) != 1 || got[0] != key {
			t.Errorf("%s: mistakes in %q", config, got)
		}
	}
	_, err := New(t.Context(), "dlq", []byte(cluster+`"reasons": {"listen": "`+missing+`/x"}}`), Deps{StateDir: t.TempDir()})
	var mistake *policy.ConfigError
	if !errors.As(err, &mistake) || mistake.Key != "reasons.listen" {
		t.Error(err)
	}
}

// TestShadowed says which rule leaves nothing for a later one.
func TestShadowed(t *testing.T) {
	for _, c := range []struct{ earlier, later, says string }{
		{``, `"topic": "a"`, "is for everyone"},
		{`"topic": "*", "group": "**"`, `"topic": "a"`, "is for everyone"},
		{`"topic": "*"`, ``, "is for everyone"},
		{`"topic": "pay.*"`, `"topic": "pay.eu"`, "matches all that it does"},
		{`"topic": "pay.*"`, `"topic": "pay.?u-*", "group": "g"`, "matches all that it does"},
		{`"topic": "pay.?"`, `"topic": "pay.?"`, "matches all that it does"},
		{`"topic": "pay.?"`, `"topic": "pay.x"`, "matches all that it does"},
		{`"topic": "pay.?"`, `"topic": "pay.*"`, ""},
		{`"topic": "?"`, ``, ""},
		{`"topic": "pay.*", "group": "g"`, `"topic": "pay.eu"`, ""},
		{`"topic": "pay.*", "principal": "User:*"`, `"topic": "pay.eu", "principal": "*"`, ""},
		{`"topic": "pay.eu"`, `"topic": "pay.*"`, ""},
		{`"topic": "pay.eu"`, `"topic": "payxeu"`, ""},
		{`"group": "?"`, ``, ""},
	} {
		config := `{"cluster": {"bootstrap": ["k:1"]}, "rules": [{"match": {` + c.earlier + `}, "topic": "dlq.a"}, {"match": {` + c.later + `}, "topic": "dlq.b"}]}`
		_, err := Parse([]byte(config))
		var mistake *policy.ConfigError
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", config, err)
		case c.says != "" && (!errors.As(err, &mistake) || *mistake != policy.ConfigError{Key: "rules[1]", Problem: "the rule is never used: rules[0] " + c.says,
			Hint: "put it before that one"}):
			t.Errorf("%s: %v", config, err)
		}
	}
}

// What Parse takes, a client can be made of.
func TestLargest(t *testing.T) {
	config := []byte(`{"cluster": {"bootstrap": ["k:1"]}, "on_failure": ["withhold"], "memory": "1024GiB", "max_record": "512MiB"}`)
	p, err := New(t.Context(), "dlq", config, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"cluster": {"bootstrap": ["k:9092"]}, "rules": [{"match": {"topic": "*"}, "topic": "dlq.x"}], "spool": {"max_age": "1d2h"}}`))
	f.Add([]byte(`{"cluster": null, "budget": "9999999999d", "memory": "9223372036854775807GiB"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := Parse(b); err == nil && (c.Budget <= 0 || len(c.OnFailure) == 0 || c.Memory < c.MaxRecord) {
			t.Fatalf("%+v", c)
		}
	})
}
