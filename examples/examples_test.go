//go:build unix

package examples

import (
	"context"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/e2e/plugin"
	"github.com/ackproxy/ackproxy/plugins/host"
	"github.com/ackproxy/ackproxy/policy"
)

func TestGo(t *testing.T) { tryExample(t, plugin.Go(t)) }

func TestPython(t *testing.T) { tryExample(t, plugin.Python(t)) }

// TestDocumentation: what docs/plugins.md shows is what TestGo runs.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("plugin-go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```go\n"+string(program)+"```\n") {
		t.Error("docs/plugins.md does not show examples/plugin-go/main.go as it is")
	}
}

func start(t testing.TB, s host.Spec) *host.Plugin {
	t.Helper()
	s.Name, s.Config, s.SocketDir, s.StartTimeout = "example", []byte(`{"topic": "orders"}`), "/tmp", time.Minute
	p, err := host.Start(context.Background(), s, zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.InfoLevel))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

var ids = map[string]codec.UUID{"orders": {1}, "returns": {2}}

// request accepts and rejects in two topics.
func request() *policy.Request {
	r := &policy.Request{Conn: &policy.Conn{}, Carrier: policy.ShareFetch, GroupID: []byte("g\xff"), SessionEpoch: 5, Received: time.Now()}
	for _, topic := range []string{"orders", "returns"} {
		r.Partitions = append(r.Partitions, policy.Partition{TopicID: ids[topic], Topic: topic, Index: 7, Ranges: []policy.Range{
			{First: 0, Last: 4, Type: policy.Accept}, {First: 5, Last: 5, Type: policy.Reject}, {First: 9, Last: 1<<63 - 2, Type: policy.Reject},
		}})
	}
	return r
}

// tryExample wants the rejects of one topic released, and nothing else.
func tryExample(t *testing.T, s host.Spec) {
	edit := policy.Edit{TopicID: ids["orders"], Partition: 7, First: 5, Last: 5, Type: policy.Release, Reason: "no record of orders is given up"}
	rest := edit
	rest.First, rest.Last = 9, 1<<63-2
	want := policy.Verdict{Edits: []policy.Edit{edit, rest}}
	p := start(t, s)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got, err := p.Decide(ctx, request()); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	all.Wait()
	s.Name, s.Config = "example", []byte(`{}`)
	s.SocketDir = "/tmp"
	if _, err := host.Start(t.Context(), s, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), "it refuses its configuration") {
		t.Errorf("a configuration without a topic: %v", err)
	}
}
