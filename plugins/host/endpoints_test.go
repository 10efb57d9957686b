package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
)

func init() {
	plugins["maps"] = func() {
		sdk.ServeEndpoints(func([]byte) (policy.EndpointPolicy, error) { return mapped{}, nil })
	}
}

// mapped is an endpoint policy that takes the client id for an order.
type mapped struct{}

func (mapped) Name() string          { return "mapped" }
func (mapped) Traits() policy.Traits { return policy.Traits{Budget: 3 * time.Second} }

func (mapped) Endpoints(ctx context.Context, c *policy.Client, nodes []policy.Node) (policy.Table, error) {
	switch c.ClientID {
	case "fail":
		return policy.Table{}, errors.New("no mood")
	case "panic":
		panic("at the disco")
	case "sleep":
		time.Sleep(10 * time.Second)
	case "exit":
		os.Exit(4)
	}
	host := fmt.Sprintf("%s.%s.%s.%s", c.Principal.Name, c.Conn.Client, c.Software, c.ClientID)
	return policy.Table{Host: host, PortBase: 5, Nodes: map[int32]policy.Endpoint{nodes[1].ID: {Host: nodes[1].Upstream, Port: nodes[1].Port}}}, nil
}

func TestEndpoints(t *testing.T) {
	p := start(t, spec(t, "maps", nil))
	if !p.MapsEndpoints() || p.Decides() || p.Observes() || p.Traits() != (policy.Traits{Waits: true, Prompt: true, Budget: 3 * time.Second}) {
		t.Errorf("%v %v %v %+v", p.MapsEndpoints(), p.Decides(), p.Observes(), p.Traits())
	}
	ask := func(order string, within time.Duration) (policy.Table, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return p.Endpoints(ctx, &policy.Client{
			Conn: &policy.Conn{ID: "c-1", Client: "client:1"}, Principal: policy.Principal{Name: "User:a"}, ClientID: order, Software: "s/1",
		}, []policy.Node{{ID: 1}, {ID: 7, Host: "proxy", Port: 9, Upstream: "up:1"}})
	}
	well := func(what string) {
		t.Helper()
		want := policy.Table{Host: "User:a.client:1.s/1." + what, PortBase: 5, Nodes: map[int32]policy.Endpoint{7: {Host: "up:1", Port: 9}}}
		if got, err := ask(what, 20*time.Second); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	well("id")
	well("")
	for order, want := range map[string]string{"fail": "no mood", "panic": "panic: at the disco"} {
		if got, err := ask(order, 20*time.Second); err == nil || err.Error() != want || got.Nodes != nil {
			t.Errorf("%s: %+v, %v", order, got, err)
		}
	}
	if _, err := ask("sleep", 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a sleeper: %v", err)
	}
	if _, err := ask("exit", 20*time.Second); err == nil {
		t.Error("one that ended has answered")
	}
	eventually(t, "another process", func() bool {
		_, err := ask("id", 20*time.Second)
		return err == nil
	})
	well("id")
}

// A plugin that does not map endpoints is not asked, and one that says that it does and has no such call has failed.
func TestEndpointsOfOthers(t *testing.T) {
	p := start(t, spec(t, "sdk", nil))
	if got, err := p.Endpoints(t.Context(), &policy.Client{}, nil); err != nil || !reflect.DeepEqual(got, policy.Table{}) || p.MapsEndpoints() {
		t.Errorf("%+v, %v", got, err)
	}
	s := spec(t, "raw", nil)
	s.Config = []byte("maps")
	p = start(t, s)
	if _, err := p.Endpoints(t.Context(), &policy.Client{}, nil); err == nil || !strings.Contains(err.Error(), "not implemented") {
		t.Error(err)
	}
}
