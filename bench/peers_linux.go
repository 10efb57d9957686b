package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const peersUsage = `Measure ackproxy beside other proxies, interleaved, in one run.

  go run ./bench -short
  go run ./bench -json before.json -svg performance.svg
  go run ./bench -peers haproxy,ackproxy -workloads 'ack-1,ack-16*' -variant 'one=env GOMAXPROCS=1 bin/ackproxy'

Further commands, each with its own -h: install, compare, kafka, soak.`

// peersOptions are the flags of the run.
type peersOptions struct {
	peers, workloads     string
	variants             variants
	rounds, conns        int
	window, warm         time.Duration
	short                bool
	format               string
	jsonFile, svgFile    string
	ackproxy, dir        string
	seed                 uint64
	peerWarm             time.Duration // most that a peer's own warm-up takes
	idleRounds, sysMilli int
}

func (o *peersOptions) parse(args []string) error {
	f := newFlags(peersUsage)
	f.StringVar(&o.peers, "peers", strings.Join(peerNames, ","), "contenders, comma-separated")
	f.StringVar(&o.workloads, "workloads", "", "workloads, comma-separated, a trailing * for all that begin so (default all)")
	f.Var(&o.variants, "variant", "a further ackproxy, `NAME=COMMAND`, measured with audit off and on; may be repeated")
	f.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	f.IntVar(&o.conns, "idle-conns", 9000, "idle connections, fewer where the descriptor limit demands it")
	f.DurationVar(&o.window, "window", 1500*time.Millisecond, "how long one measurement takes")
	f.DurationVar(&o.warm, "warm", 300*time.Millisecond, "load before each measurement")
	f.BoolVar(&o.short, "short", false, "about two minutes: 2 rounds of short windows, for a look")
	f.StringVar(&o.format, "o", "text", "what is printed: text or json")
	f.StringVar(&o.jsonFile, "json", "", "write the report to `FILE`, for compare")
	f.StringVar(&o.svgFile, "svg", "", "draw the figures into `FILE`")
	f.StringVar(&o.ackproxy, "ackproxy", "", "the proxy's program (default: built from this checkout)")
	f.StringVar(&o.dir, "dir", "", "where the peers' files and audit logs go (default: a temporary directory)")
	f.Uint64Var(&o.seed, "seed", 1, "of the order of contenders in each round")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	o.peerWarm, o.idleRounds, o.sysMilli = 30*time.Second, min(o.rounds, 3), 1000
	if o.short {
		o.rounds, o.idleRounds, o.window, o.warm = 2, 1, 250*time.Millisecond, 100*time.Millisecond
		o.peerWarm, o.sysMilli = 5*time.Second, 250
	}
	if o.format != "text" && o.format != "json" {
		return misuse{fmt.Errorf("-o %s: text or json", o.format)}
	}
	if o.rounds < 1 || o.window <= 0 {
		return misuse{errors.New("-rounds and -window must be above 0")}
	}
	return nil
}

// variants are further ackproxies, name and command.
type variants [][2]string

func (v *variants) String() string { return "" }

// Set reads NAME=COMMAND.
func (v *variants) Set(s string) error {
	name, command, ok := strings.Cut(s, "=")
	if !ok || name == "" || command == "" || strings.ContainsAny(name, ", ") {
		return errors.New("NAME=COMMAND is wanted")
	}
	*v = append(*v, [2]string{name, command})
	return nil
}

// bench is a run.
type bench struct {
	peersOptions
	report  *report.Report
	broker  *kafka.Process
	ports   []int // of the broker, one a peer: each has the whole range of outgoing ports
	peers   []*peer.Peer
	running map[string]*peer.Running
	random  *rand.Rand
	say     *progress
	others  []float64 // processors used by processes that are not ours, in each measurement
}

func peersCommand(ctx context.Context, args []string) error {
	b := &bench{running: map[string]*peer.Running{}, say: newProgress()}
	if err := b.parse(args); err != nil {
		return err
	}
	chosen, idle, err := choose(b.workloads)
	if err != nil {
		return err
	}
	b.random = rand.New(rand.NewPCG(b.seed, 0))
	if err := b.enter(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer b.stop()
	if err := b.start(ctx, args); err != nil {
		return err
	}
	if err := b.run(ctx, chosen, idle); err != nil {
		return err
	}
	return b.print()
}

// enter builds the proxy and goes into a network namespace. It makes the run's directory, which the caller removes.
func (b *bench) enter(ctx context.Context) error {
	const dirVariable, binVariable = "ACKPROXY_BENCH_DIR", "ACKPROXY_BENCH_BIN"
	if fenced() {
		b.dir, b.ackproxy = os.Getenv(dirVariable), os.Getenv(binVariable)
		return loopbackUp()
	}
	var err error
	if b.dir, err = os.MkdirTemp(b.dir, "ackproxy-bench-"); err != nil {
		return err
	}
	if b.ackproxy == "" && strings.Contains(b.peersOptions.peers, "ackproxy") {
		b.say.now("building ackproxy")
		if b.ackproxy, err = peer.BuildAckproxy(ctx, b.dir); err != nil {
			return errors.Join(err, os.RemoveAll(b.dir))
		}
	}
	if err := errors.Join(os.Setenv(dirVariable, b.dir), os.Setenv(binVariable, b.ackproxy)); err != nil {
		return err
	}
	b.say.loud("no network namespace, the machine's own network is used: %v", fence()) // fence returns only when it failed
	return nil
}

// start finds the contenders and starts the broker and each of them.
func (b *bench) start(ctx context.Context, args []string) error {
	if err := epoll.RaiseDescriptorLimit(); err != nil {
		return err
	}
	b.report = &report.Report{Format: report.Format, Mode: "peers", Started: time.Now(), Command: args, Commit: commit(), Go: runtime.Version(),
		Machine: proc.ReadMachine(runtime.NumCPU()), Namespace: fenced(), Rounds: b.rounds}
	if err := b.find(ctx); err != nil {
		return err
	}
	if err := b.startBroker(ctx); err != nil {
		return err
	}
	for i, p := range b.peers {
		b.say.now("starting %s", p.Name)
		r, err := p.Start(ctx, b.dir, b.ports[i])
		if err != nil {
			return err
		}
		b.running[p.Name] = r
	}
	return nil
}

// startBroker starts the broker stand-in.
func (b *bench) startBroker(ctx context.Context) error {
	base, err := kafka.FreePorts(len(b.peers), "127.0.0.1")
	if err != nil {
		return err
	}
	for i := range b.peers {
		b.ports = append(b.ports, base+i)
	}
	b.broker, err = startBroker(ctx, b.dir, b.ports)
	return err
}

func (b *bench) stop() {
	for _, r := range b.running {
		if err := r.Stop(); err != nil {
			b.say.loud("%s: %v", r.Name, err)
		}
	}
	if b.broker != nil {
		_ = b.broker.Kill()
	}
}
