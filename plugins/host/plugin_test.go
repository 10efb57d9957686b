package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
)

// The test binary is the plugin as well, where its first argument names one.
var plugins = map[string]func(){
	"sdk": func() { sdk.Serve(openTried) },
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run := plugins[strings.TrimPrefix(os.Args[1], "plugin=")]; run != nil {
			run()
			os.Exit(0)
		}
	}
	dir, err := os.MkdirTemp("", "ackproxy-host-test-")
	if err != nil {
		panic(err)
	}
	if self, err = copySelf(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// self is a copy of the test binary that only we may write to, whatever the umask is.
var self File

func copySelf(dir string) (f File, err error) {
	path, err := os.Executable()
	if err != nil {
		return f, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	sum := sha256.Sum256(content)
	f = File{Path: filepath.Join(dir, "plugin"), SHA256: hex.EncodeToString(sum[:])}
	return f, errors.Join(os.WriteFile(f.Path, content, 0o700), os.Chmod(f.Path, 0o700))
}

// tried is the policy of most tests; its configuration says how it behaves.
type tried struct {
	Exists   string // exits at start where this file exists
	Floods   bool   // prints without end
	Says     string // printed on standard error for each decision
	Budget   time.Duration
	Closed   string // a file that is made by Close
	seen     atomic.Int64
	dropped  atomic.Int64
	disorder atomic.Int64
}

func openTried(config []byte) (policy.Policy, error) {
	p := &tried{}
	if len(config) > 0 {
		if err := json.Unmarshal(config, p); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(p.Exists); err == nil {
		fmt.Fprintln(os.Stderr, "told to go")
		os.Exit(3)
	}
	if p.Floods {
		go flood(os.Stdout)
		go flood(os.Stderr)
	}
	return p, nil
}

func flood(w io.Writer) {
	for {
		fmt.Fprintln(w, strings.Repeat("words ", 40))
	}
}

func (p *tried) Name() string { return "tried" }

func (p *tried) Traits() policy.Traits { return policy.Traits{Waits: true, Budget: p.Budget} }

// Decide takes the group for an order.
func (p *tried) Decide(ctx context.Context, r *policy.Request) (policy.Verdict, error) {
	if p.Says != "" {
		fmt.Fprintln(os.Stderr, p.Says)
	}
	switch order := string(r.GroupID); order {
	case "sleep":
		time.Sleep(10 * time.Second)
	case "deadline":
		<-ctx.Done()
		return policy.Verdict{}, ctx.Err()
	case "fail":
		return policy.Verdict{}, errors.New("no mood")
	case "panic":
		panic("at the disco")
	case "exit":
		os.Exit(4)
	case "environment":
		return policy.Verdict{Reason: strings.Join(os.Environ(), "\n")}, nil
	case "seen":
		return policy.Verdict{Reason: fmt.Sprintf("seen=%d dropped=%d disorder=%d", p.seen.Load(), p.dropped.Load(), p.disorder.Load())}, nil
	}
	return release(r), nil
}

// release turns Reject into Release for the topic "orders".
func release(r *policy.Request) (v policy.Verdict) {
	for _, p := range r.Partitions {
		for _, x := range p.Ranges {
			if p.Topic == "orders" && x.Type == policy.Reject {
				v.Edits = append(v.Edits, policy.Edit{
					TopicID: p.TopicID, Partition: p.Index, First: x.First, Last: x.Last, Type: policy.Release, Reason: "again",
				})
			}
		}
	}
	return v
}

func (p *tried) Observe(o *policy.Outcome) {
	if o.Note == "block" {
		time.Sleep(time.Hour)
	}
	if int64(o.Request.CorrelationID) != p.seen.Add(1)+p.dropped.Load() {
		p.disorder.Add(1)
	}
}

func (p *tried) Dropped(n uint64) { p.dropped.Add(int64(n)) }

func (p *tried) Close() error {
	if p.Closed == "" {
		return nil
	}
	return os.WriteFile(p.Closed, nil, 0o600)
}

// spec runs the test binary as one of plugins.
func spec(t testing.TB, plugin string, config *tried) Spec {
	s := Spec{
		Name: t.Name(), Path: self.Path, SHA256: self.SHA256, Args: []string{"plugin=" + plugin}, SocketDir: "/tmp", HostVersion: "1.2.3",
		Backoff: Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond, Break: time.Hour},
	}
	if config != nil {
		s.Config, _ = json.Marshal(config)
	}
	return s
}

func start(t testing.TB, s Spec) *Plugin {
	t.Helper()
	p, err := Start(context.Background(), s, logTo(t))
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

func logTo(t testing.TB) zerolog.Logger {
	if !testing.Verbose() {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.NewTestWriter(t))
}

var topicID = codec.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// request asks the topic "orders" for one type, in a group.
func request(group string) *policy.Request {
	return &policy.Request{
		Conn: &policy.Conn{ID: "c-1"}, APIKey: codec.KeyShareAcknowledge, APIVersion: 2, Carrier: policy.ShareAcknowledge, GroupID: []byte(group),
		MemberID: []byte("m1"), Received: time.Now(),
		Partitions: []policy.Partition{{TopicID: topicID, Topic: "orders", Index: 3, Ranges: []policy.Range{
			{First: 0, Last: 9, Type: policy.Accept}, {First: 10, Last: 1<<63 - 2, Type: policy.Reject},
		}}},
	}
}

// eventually waits for what others bring about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func decide(p *Plugin, order string, within time.Duration) (policy.Verdict, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Decide(ctx, request(order))
}
