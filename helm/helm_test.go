// Package helm tests the chart: what it renders against golden files, and what it refuses.
package helm

import (
	"bytes"
	"encoding/pem"
	"errors"
	"flag"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const chart = "ackproxy"

var update = flag.Bool("update", false, "rewrite the golden files")

// helm runs the pinned helm, which sees no configuration of the user's and no cluster.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	seen(t)
	home := t.TempDir()
	cmd := exec.Command("go", append([]string{"tool", "-modfile=../tools.mod", "helm"}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HELM_") && !strings.HasPrefix(v, "KUBE") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	for _, v := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECONFIG"} {
		cmd.Env = append(cmd.Env, v+"="+filepath.Join(home, v))
	}
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	err = cmd.Run()
	return out.String(), diag.String(), err
}

// seen opens what helm and ackproxy validate are made of, so that a test result is not taken from the cache after a change of it.
func seen(t *testing.T) {
	t.Helper()
	for _, file := range []string{"../tools.mod", "../go.mod"} {
		if _, err := os.Stat(file); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{chart, "../cmd", "../codec", "../internal", "../policy", "../proxy", "../plugins"} {
		if err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
}

func template(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return helm(t, append([]string{"template", "edge", chart, "--namespace", "kafka", "--kube-version", "1.33"}, args...)...)
}

// valueSets are the files of golden/values; at least one is there.
func valueSets(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("golden/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no value sets: %v", err)
	}
	return files
}

func TestLint(t *testing.T) {
	for _, values := range append(valueSets(t), filepath.Join(chart, "values.yaml")) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			t.Parallel()
			out, diag, err := helm(t, "lint", "--strict", "--kube-version", "1.33", chart, "--values", values)
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, diag)
			}
		})
	}
}

func TestGolden(t *testing.T) {
	for _, values := range valueSets(t) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			t.Parallel()
			got, diag, err := template(t, "--values", values)
			if err != nil {
				t.Fatalf("%v\n%s", err, diag)
			}
			checkConfig(t, got)
			golden := filepath.Join("golden", filepath.Base(values))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if line, a, b := firstDifference(string(want), got); line > 0 {
				t.Errorf("%s:%d: want %q, rendered %q; make golden rewrites it", golden, line, a, b)
			}
		})
	}
}

// firstDifference returns the number of the first line that differs, and the line in a and b; 0 when none does.
func firstDifference(a, b string) (line int, inA, inB string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(as), len(bs)) {
		inA, inB = "", ""
		if i < len(as) {
			inA = as[i]
		}
		if i < len(bs) {
			inB = bs[i]
		}
		if inA != inB || i >= len(as) || i >= len(bs) {
			return i + 1, inA, inB
		}
	}
	return 0, "", ""
}

// checkConfig fails unless the ConfigMap in the rendered objects holds a configuration that ackproxy would run with.
func checkConfig(t *testing.T, rendered string) {
	t.Helper()
	for object := range strings.SplitSeq(rendered, "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(object), &o); err != nil {
			t.Fatalf("%v\n%s", err, object)
		}
		if o.Kind != "ConfigMap" {
			continue
		}
		validate(t, o.Data["config.yaml"], nil)
		return
	}
	t.Error("no ConfigMap")
}

// secrets is a folder with what the values mount below /secrets.
func secrets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewTLSServer(nil)
	server.Close()
	for name, text := range map[string][]byte{
		"kafka/password": []byte("secret\n"),
		"ca/ca.crt":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// validate fails unless ackproxy would run with a file of that text and these variables, each of which has to be one of its own.
func validate(t *testing.T, text string, env []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text = strings.ReplaceAll(text, "/secrets/", secrets(t)+"/")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "../cmd/ackproxy", "validate", "-c", file)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "no setting has this variable") {
		t.Errorf("ackproxy validate: %v\n%s", err, out)
	}
}

// TestRefused sets one thing wrong at a time. The messages are those of the schema, or the chart's own.
func TestRefused(t *testing.T) {
	tests := []struct{ name, set, want string }{
		{"no ids", "brokers.ids=null", "brokers.ids: which nodes"},
		{"no upstream", "config.upstream.bootstrap=null", "config.upstream.bootstrap: where is Kafka?"},
		{"unknown key", "replicas=2", "'replicas' not allowed"},
		{"unknown key of the configuration", "config.upstream.boostrap=x", "'boostrap' not allowed"},
		{"what the chart sets itself", "config.listen.bootstrap=1.2.3.4:5", "'bootstrap' not allowed"},
		{"node twice", "brokers.ids={1,1}", "items at 0 and 1 are equal"},
		{"node id", "brokers.ids={-1}", "minimum"},
		{"address without port", "config.upstream.bootstrap={kafka}", "/config/upstream/bootstrap/0"},
		{"decimal size", "config.protocol.max_frame=100MB", "'100MB' does not match pattern"},
		{"duration without unit", "config.drain.timeout=25", "/config/drain/timeout"},
		{"pattern without a port", "config.upstream.host_pattern=kafka-{id}.kafka", "/config/upstream/host_pattern"},
		{"no time to dial", "config.upstream.dial_timeout=0s", "/config/upstream/dial_timeout"},
		{"too many requests", "config.protocol.max_in_flight=2000000", "/config/protocol/max_in_flight"},
		{"key of another API", "config.protocol.txn_share_acknowledge.api_key=79", "/config/protocol/txn_share_acknowledge/api_key"},
		{"port of the host that clients are told", "config.listen.advertise=kafka.example.com:9092", "/config/listen/advertise"},
		{"policy without either", "config.policies[0].name=x", "missing property 'builtin'"},
		{"policy with a relative plugin", "config.policies[0].name=x,config.policies[0].plugin.path=p", "missing property 'sha256'"},
		{"file sink without path", "config.audit.sinks[0].type=file", "missing property 'path'"},
		{"policy that is not built yet", "config.policies[0].name=x,config.policies[0].builtin=chaos", "/config/policies/0/builtin"},
		{"sink that is not built yet", "config.audit.sinks[0].type=kafka", "/config/audit/sinks/0/type"},
		{"no memory for frames", "config.protocol.max_buffered=0", "/config/protocol/max_buffered"},
		{"stdout sink with path", "config.audit.sinks[0].type=stdout,config.audit.sinks[0].path=/x", "'path' not allowed"},
		{"secret in the way of the configuration", "secretMounts[0].secret=x,secretMounts[0].path=/etc/ackproxy/x", "/secretMounts/0/path"},
		{"secret without a place", "secretMounts[0].secret=x", "missing property 'path'"},
		{"tag as digest", "image.digest=latest", "'latest' does not match pattern"},
		{"node port", "service.type=NodePort", "/service/type"},
		{"port beyond the last", "config.listen.broker_ports.base=65534", "node 2 would be at port 65536"},
		{"port of the bootstrap listener", "config.listen.broker_ports.base=19090", "port 19092 is that of the bootstrap listener"},
		{"port of the admin listener", "config.listen.broker_ports.base=9463", "port 9464 is that of the admin listener"},
		{"port of the Service", "service.port=19102", "port 19102 is that of service.port"},
		{"volume of two", "state.persistence.enabled=true,replicaCount=2", "one volume has one writer"},
		{"replicas that know no node", "replicaCount=2", "where are the nodes 1, 2? Set config.upstream.host_pattern"},
		{"replicas that know one node", "replicaCount=2,config.upstream.nodes.1=kafka-1:9092", "where are the nodes 2?"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			out, diag, err := template(t, "--set", "brokers.ids={1,2},config.upstream.bootstrap={kafka:9092}", "--set", test.set)
			if err == nil {
				t.Fatalf("not refused:\n%s", out)
			}
			if !strings.Contains(diag, test.want) {
				t.Errorf("want %q in:\n%s", test.want, diag)
			}
		})
	}
}

// TestReadme renders the values that the chart's README shows. Objects of Kubernetes there are only read.
func TestReadme(t *testing.T) {
	for i, block := range yamlOf(t, filepath.Join(chart, "README.md")) {
		var o struct{ Kind string }
		if err := yaml.Unmarshal([]byte(block), &o); err != nil {
			t.Errorf("%v\n%s", err, block)
			continue
		}
		if o.Kind != "" {
			continue
		}
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			values := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(values, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, diag, err := template(t, "--values", "golden/values/minimal.yaml", "--values", values); err != nil {
				t.Errorf("%v\n%s\nof\n%s", err, diag, block)
			}
		})
	}
}

// TestOperations: what docs/operations.md shows is YAML that ackproxy takes, a file as such and the environment of a sidecar.
func TestOperations(t *testing.T) {
	for _, block := range yamlOf(t, "../docs/operations.md") {
		var o struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						InitContainers []struct {
							Env []struct{ Name, Value string }
						} `yaml:"initContainers"`
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(block), &o); err != nil {
			t.Errorf("%v\n%s", err, block)
			continue
		}
		if o.Kind == "" {
			validate(t, block, nil)
			continue
		}
		if len(o.Spec.Template.Spec.InitContainers) != 1 {
			t.Fatalf("no sidecar in\n%s", block)
		}
		var env []string
		for _, v := range o.Spec.Template.Spec.InitContainers[0].Env {
			env = append(env, v.Name+"="+v.Value)
		}
		validate(t, "", env)
	}
}

// yamlOf returns what a document shows as YAML; something is there.
func yamlOf(t *testing.T, document string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s shows no YAML", document)
	}
	return blocks
}

// TestPluginKeys: the schema knows each key of a plugin. Golden files have none, since validate wants the program to be there.
func TestPluginKeys(t *testing.T) {
	const plugin = "config.policies[0].plugin."
	out, diag, err := template(t, "--values", "golden/values/minimal.yaml", "--set", "config.policies[0].name=x,"+plugin+"path=/p,"+plugin+"sha256="+
		strings.Repeat("0a", 32)+","+plugin+"args={-v},"+plugin+"env={HOME},"+plugin+"socket_dir=/var/lib/ackproxy,"+plugin+"files[0].path=/f,"+
		plugin+"files[0].sha256="+strings.Repeat("0b", 32))
	if err != nil || !strings.Contains(out, "socket_dir: /var/lib/ackproxy\n") {
		t.Errorf("%v\n%s%s", err, diag, out)
	}
}

// TestNotes: whoever installs a dead-letter policy is told what becomes of its spool, and who names no brokers what that means.
func TestNotes(t *testing.T) {
	const memory, small = "WARNING: the memory limit of 512Mi is too small for the policy ", ": at its own limits ackproxy needs 605Mi."
	const none, warning, unknown = "The policy letters keeps no spool", "WARNING: the policy spooled", "WARNING: ackproxy does not know where the nodes"
	for values, want := range map[string][]string{
		"dlq": {none, warning, unknown, memory + "letters" + small, memory + "spooled" + small}, "dlq-persistence": nil, "minimal": {unknown + " 1, 2, 3 are"}, "pattern": nil,
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			got := notes(t, "golden/values/"+values+".yaml")
			for _, text := range append(want, "bootstrap.servers=") {
				if !strings.Contains(got, text) {
					t.Errorf("%q is not there:\n%s", text, got)
				}
			}
			if n := strings.Count(got, "The policy ") + strings.Count(got, "WARNING: "); n != len(want) {
				t.Errorf("%d remarks, want %d:\n%s", n, len(want), got)
			}
		})
	}
}

// notes renders NOTES.txt, which helm does for a cluster only, as part of an object.
func notes(t *testing.T, values string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(chart, "templates", "NOTES.txt"))
	err = errors.Join(err, os.CopyFS(dir, os.DirFS(chart)), os.WriteFile(filepath.Join(dir, "notes"), text, 0o600),
		os.WriteFile(filepath.Join(dir, "templates", "notes.yaml"), []byte("notes: {{ tpl (.Files.Get \"notes\") . | quote }}\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	out, diag, err := helm(t, "template", "edge", dir, "--kube-version", "1.33", "--values", values, "--show-only", "templates/notes.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, diag)
	}
	var o struct{ Notes string }
	if err := yaml.Unmarshal([]byte(out), &o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return o.Notes
}
