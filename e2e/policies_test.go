package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/plugin"
	"github.com/ackproxy/ackproxy/plugins/host"
)

// policies writes a configuration with one plugin, which is shown topic, and returns the flags that name it.
func policies(t testing.TB, s host.Spec, topic string) []string {
	t.Helper()
	type file struct {
		Path   string `json:"path"`
		SHA256 string `json:"sha256"`
	}
	files := []file{}
	for _, f := range s.Files {
		files = append(files, file(f))
	}
	text, err := json.Marshal(map[string]any{"policies": []any{map[string]any{
		"name": "example", "timeout": "5s", "config": map[string]string{"topic": topic},
		"plugin": map[string]any{"path": s.Path, "sha256": s.SHA256, "args": append([]string{}, s.Args...), "files": files, "env": append([]string{}, s.Env...), "socket_dir": "/tmp"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir(t), "ackproxy.yaml") // JSON is YAML
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", path}
}

// TestPluginTurnsRejectIntoRelease: a plugin has rejected records of one topic released. They come again; those of the other topic in the
// same requests do not, and the audit log says what was asked and what was forwarded.
func TestPluginTurnsRejectIntoRelease(t *testing.T) {
	for name, make := range map[string]func(testing.TB) host.Spec{"go": plugin.Go, "python": plugin.Python} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, kafka.Versions[0], 1)
			saved, gone := "saved-"+name, "gone-"+name
			for _, topic := range []string{saved, gone} {
				if _, err := c.CreateTopic(t.Context(), topic, 1); err != nil {
					t.Fatal(err)
				}
				if err := c.Produce(t.Context(), topic, 1, 5); err != nil {
					t.Fatal(err)
				}
			}
			group := "plugin-" + name
			if err := c.ShareGroup(t.Context(), group, nil); err != nil {
				t.Fatal(err)
			}
			g := proxy(t, c, gateway.Options{Args: policies(t, make(t), saved)})
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			cl, err := kgo.NewClient(kgo.SeedBrokers(g.Bootstrap()), kgo.ShareGroup(group), kgo.ConsumeTopics(saved, gone), kgo.FetchMaxWait(200*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			times := map[string]int{} // deliveries by topic
			again := 0
			for again < 5 || times[gone] < 5 {
				fs := cl.PollFetches(ctx)
				if ctx.Err() != nil {
					t.Fatalf("deliveries %v, %d of them again", times, again)
				}
				for _, r := range fs.Records() {
					times[r.Topic]++
					if r.DeliveryCount() > 1 {
						again++
						r.Ack(kgo.AckAccept)
						continue
					}
					r.Ack(kgo.AckReject)
				}
			}
			if err := cl.FlushAcks(ctx); err != nil {
				t.Fatal(err)
			}
			if times[saved] != 10 || times[gone] != 5 {
				t.Errorf("deliveries %v, want 10 and 5", times)
			}
			for _, topic := range []string{saved, gone} {
				if err := kafka.Until(ctx, "no lag of "+topic, func(ctx context.Context) bool {
					lag, err := c.ShareLag(ctx, group, topic, 1)
					return err == nil && lag == 0
				}); err != nil {
					t.Error(err)
				}
			}
			cl.Close()
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			if !gateway.Direct() {
				checkRejects(t, g.Audit, group, saved, gone)
			}
		})
	}
}

// checkRejects reads what the audit log says of rejects: those of saved were forwarded as releases, those of gone as they came.
func checkRejects(t *testing.T, path, group, saved, gone string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records := map[string]int64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var line struct {
			Type   string
			Target struct{ Group, Topic string }
			Ack    struct {
				Asked     []struct{ Type string }
				Forwarded json.RawMessage
				Records   int64
			}
			Verdict struct{ State string }
			Policy  []struct{ Name, Action string }
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err, lines.Text())
		}
		if line.Type != "share.ack" || line.Target.Group != group || len(line.Ack.Asked) == 0 || line.Ack.Asked[0].Type != "reject" {
			continue
		}
		forwarded := string(line.Ack.Forwarded)
		switch topic := line.Target.Topic; {
		case line.Verdict.State != "accepted":
			t.Errorf("verdict: %s", lines.Text())
		case topic == gone && (forwarded != `"same"` || len(line.Policy) > 0):
			t.Errorf("of %s: %s", topic, lines.Text())
		case topic == saved:
			var as []struct{ Type string }
			if json.Unmarshal(line.Ack.Forwarded, &as) != nil || len(as) == 0 || as[0].Type != "release" || len(line.Policy) != 1 || line.Policy[0].Name != "example" {
				t.Errorf("of %s: %s", topic, lines.Text())
			}
		}
		records[line.Target.Topic] += line.Ack.Records
	}
	if fmt.Sprint(records) != fmt.Sprint(map[string]int64{saved: 5, gone: 5}) {
		t.Errorf("records rejected by the audit log: %v", records)
	}
}
