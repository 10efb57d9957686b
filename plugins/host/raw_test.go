package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
)

func init() { plugins["raw"] = serveRaw }

// raw is a plugin that does what the SDK never would. The group says what.
type raw struct {
	goplugin.NetRPCUnsupportedPlugin
	policyv1.UnimplementedPolicyServiceServer
}

func (r *raw) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	policyv1.RegisterPolicyServiceServer(g, r)
	return nil
}

func (r *raw) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not a client")
}

func serveRaw() { servePlugin(&raw{}) }

func servePlugin(p goplugin.Plugin) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		Plugins: goplugin.PluginSet{"any": p}, GRPCServer: goplugin.DefaultGRPCServer,
	})
}

func (r *raw) Configure(_ context.Context, m *policyv1.ConfigureRequest) (*policyv1.ConfigureResponse, error) {
	return &policyv1.ConfigureResponse{Name: string(m.Config), Decides: string(m.Config) != "nothing", MapsEndpoints: string(m.Config) == "maps"}, nil
}

func (r *raw) Decide(stream grpc.BidiStreamingServer[policyv1.DecideRequest, policyv1.DecideResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		verdict := &policyv1.Verdict{Reason: m.GetRequest().GetGroupId()}
		good := &policyv1.DecideResponse{Id: m.Id, Result: &policyv1.DecideResponse_Verdict{Verdict: verdict}}
		switch m.GetRequest().GetGroupId() {
		case "twice":
			stream.Send(good)
		case "other id":
			for id := range uint64(1000) {
				stream.Send(&policyv1.DecideResponse{Id: m.Id + 1 + id, Result: good.Result})
			}
			good.Id = 0
		case "nothing":
			good.Result = nil
		case "half an edit":
			verdict.Edits = []*policyv1.Edit{{TopicId: topicID[:]}}
		case "short id":
			verdict.Edits = []*policyv1.Edit{{TopicId: topicID[:3], Action: &policyv1.Edit_Change{Change: 2}}}
		case "bad type":
			verdict.Edits = []*policyv1.Edit{{TopicId: topicID[:], Action: &policyv1.Edit_Change{Change: 9}}}
		case "huge":
			verdict.Reason = strings.Repeat("x", wire.DefaultMessage)
		case "end":
			return nil
		}
		stream.Send(good)
	}
}

func TestAnswersThatMeanNothing(t *testing.T) {
	p := start(t, spec(t, "raw", nil))
	for order, want := range map[string]string{
		"nothing": "neither a verdict nor an error", "half an edit": "neither change nor withhold", "short id": "3 bytes", "bad type": "unknown type 9",
	} {
		if v, err := decide(p, order, 10*time.Second); err == nil || !strings.Contains(err.Error(), want) || v.Edits != nil {
			t.Errorf("%s: %+v, %v", order, v, err)
		}
	}
	if v, err := decide(p, "twice", 10*time.Second); err != nil || v.Reason != "twice" {
		t.Errorf("%+v, %v", v, err)
	}
	eventually(t, "the second answer is counted", func() bool { return p.Stats().Late == 1 })
	if _, err := decide(p, "other id", 200*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	eventually(t, "others are counted", func() bool { return p.Stats().Unknown == 1001 })
	if v, err := decide(p, "g", 10*time.Second); err != nil || v.Reason != "g" {
		t.Errorf("afterwards: %+v, %v", v, err)
	}
	if s := p.Stats(); s.Starts != 1 {
		t.Errorf("%+v", s)
	}
}

func TestStreamThatEndsIsANewProcess(t *testing.T) {
	p := start(t, spec(t, "raw", nil))
	for i, order := range []string{"end", "huge"} {
		if _, err := decide(p, order, 10*time.Second); !errors.Is(err, ErrDown) {
			t.Errorf("%s: %v", order, err)
		}
		eventually(t, "a new one", func() bool { return p.Stats().Starts == uint64(i+2) && p.Ready() == nil })
	}
	if v, err := decide(p, "g", 10*time.Second); err != nil || v.Reason != "g" {
		t.Errorf("%+v, %v", v, err)
	}
}

// Plugins that never get as far as serving.
func init() {
	say := func(line string) func() {
		return func() {
			fmt.Print(line)
			os.Stdout.Sync()
			time.Sleep(time.Minute)
		}
	}
	certificate := strings.Repeat("x", 100)
	plugins["silent"] = say("")
	plugins["chatty"] = say("Hello, I am a plugin.\n")
	plugins["endless"] = func() {
		for {
			fmt.Print(strings.Repeat("x", 1<<16))
		}
	}
	plugins["older"] = say("1|0|unix|/tmp/none|grpc|" + certificate + "\n")
	plugins["newer"] = say("1|2|unix|/tmp/none|grpc|" + certificate + "\n")
	plugins["netrpc"] = say("1|1|unix|/tmp/none|netrpc|" + certificate + "\n")
	plugins["open"] = say("1|1|unix|/tmp/none|grpc|\n")
	plugins["nowhere"] = say("1|1|unix|/tmp/none|grpc|" + certificate + "\n")
	plugins["dies"] = func() {
		fmt.Fprintln(os.Stderr, `{"@message":1}`)
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(7)
	}
}

func TestStartsThatFail(t *testing.T) {
	for plugin, want := range map[string]string{
		"silent":  "not healthy within 500ms",
		"chatty":  `no handshake: the first line it printed is "Hello, I am a plugin.\n"`,
		"endless": "the first line it printed is longer than 16384 bytes",
		"older":   "the plugin is older: it speaks protocol 0, and this ackproxy (1.2.3) only 1",
		"newer":   "this ackproxy (1.2.3) is older: it speaks protocol 1, and the plugin only 2",
		"netrpc":  `it speaks "netrpc", and only grpc is spoken here`,
		"open":    "its handshake has no certificate",
		"nowhere": "certificate",
		"dies":    `the process ended (exit status 7); it last printed "the disk is on fire"`,
	} {
		t.Run(plugin, func(t *testing.T) {
			s := spec(t, plugin, nil)
			s.StartTimeout = 500 * time.Millisecond
			p, err := Start(t.Context(), s, logTo(t))
			if err == nil {
				p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	for _, c := range []struct{ plugin, config, want string }{
		{"sdk", `{"Says": 7}`, "it refuses its configuration: json: cannot unmarshal"},
		{"raw", "nothing", "it neither decides nor observes"},
	} {
		s := spec(t, c.plugin, nil)
		s.Config = []byte(c.config)
		if _, err := Start(t.Context(), s, logTo(t)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Error(err)
		}
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, spec(t, "silent", nil), logTo(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func init() { plugins["deaf"] = serveDeaf }

// deaf never reads what it is asked.
type deaf struct{ raw }

func (d *deaf) Decide(stream grpc.BidiStreamingServer[policyv1.DecideRequest, policyv1.DecideResponse]) error {
	<-stream.Context().Done()
	return nil
}

func (d *deaf) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	policyv1.RegisterPolicyServiceServer(g, d)
	return nil
}

func serveDeaf() { servePlugin(&deaf{}) }

func TestPluginThatNeverReads(t *testing.T) {
	p := start(t, spec(t, "deaf", nil))
	group := strings.Repeat("x", 1<<10)
	var calls sync.WaitGroup
	for range maxAsks + 100 { // more than queue and connection hold together
		calls.Go(func() {
			if _, err := decide(p, group, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		if p.session.Load() == nil {
			t.Fatal(p.Ready())
		}
	}
	calls.Wait()
	if d := p.session.Load().decisions; len(d.waiting) != 0 {
		t.Errorf("%d questions are kept that nobody asks", len(d.waiting))
	}
}
