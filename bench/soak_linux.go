package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/chart"
	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/bench/internal/load"
	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
)

const soakUsage = `Keep ackproxy, with its audit log on, under mixed load and watch its resident memory: acknowledgements, share fetches, large produces and
fetches, at a given rate, on connections that come and go.

  go run ./bench soak -minutes 30 -svg soak.svg`

// soak is a run of soakCommand.
type soak struct {
	minutes, rate float64
	bench
	samples []sample
	done    sync.Map // requests answered, *atomic.Uint64 by frames.Kind
}

// sample is the proxy at one moment.
type sample struct {
	Seconds     float64 `json:"seconds"`
	RSS         float64 `json:"rss_mib"`
	Anonymous   float64 `json:"anonymous_mib"` // of RSS, without the program's own pages
	Heap        float64 `json:"heap_mib"`      // in use, by Go's own count
	Live        float64 `json:"live_mib"`      // what the last garbage collection found in use
	Goroutines  float64 `json:"goroutines"`
	Descriptors float64 `json:"descriptors"`
}

func soakCommand(ctx context.Context, args []string) error {
	s := &soak{bench: bench{running: map[string]*peer.Running{}, say: newProgress()}}
	f := newFlags(soakUsage)
	f.Float64Var(&s.minutes, "minutes", 30, "how long")
	f.Float64Var(&s.rate, "rate", 5000, "acknowledgement requests a second; a 20th as many share fetches, a 200th of each large frame")
	f.StringVar(&s.format, "o", "text", "what is printed: text or json, with all samples")
	f.StringVar(&s.svgFile, "svg", "", "draw the resident memory into `FILE`")
	f.StringVar(&s.ackproxy, "ackproxy", "", "the proxy's program (default: built from this checkout)")
	f.StringVar(&s.dir, "dir", "", "where the proxy's files and audit log go (default: a temporary directory)")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if s.minutes <= 0 || s.rate < 200 || s.format != "text" && s.format != "json" {
		return misuse{errors.New("-minutes must be above 0, -rate at least 200, -o text or json")}
	}
	s.peersOptions.peers = "ackproxy"
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(s.dir)
	defer s.stop()
	p, err := peer.Ackproxy("ackproxy", s.ackproxy, peer.Audit)
	if err != nil {
		return err
	}
	s.peers = []*peer.Peer{p}
	if err := errors.Join(epoll.RaiseDescriptorLimit(), s.startBroker(ctx)); err != nil {
		return err
	}
	r, err := p.Start(ctx, s.dir, s.ports[0])
	if err != nil {
		return err
	}
	s.running[p.Name] = r
	if err := s.hold(ctx, r); err != nil {
		return fmt.Errorf("%w\n%s", err, r.Logs())
	}
	return s.tell()
}

// hold makes the load and takes samples until the time is over.
func (s *soak) hold(ctx context.Context, r *peer.Running) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.minutes*float64(time.Minute)))
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, len(frames.Kinds)+1)
	for kind, l := range map[frames.Kind]load.Spec{
		frames.Ack:        {Conns: 200, Depth: 8, Rate: s.rate},
		frames.ShareFetch: {Conns: 50, Depth: 1, Rate: s.rate / 20},
		frames.Produce:    {Conns: 8, Depth: 2, Rate: s.rate / 200},
		frames.Fetch:      {Conns: 8, Depth: 2, Rate: s.rate / 200},
	} {
		l.Kind, l.Addr, l.ShareVersion = kind, r.Addr, r.ShareVersion
		wg.Go(func() {
			if err := s.comeAndGo(ctx, l); err != nil {
				failed <- fmt.Errorf("%s: %w", l.Kind, err)
				cancel()
			}
		})
	}
	err := s.watch(ctx, r)
	cancel()
	wg.Wait()
	close(failed)
	for e := range failed {
		err = errors.Join(err, e)
	}
	return err
}

// comeAndGo makes one kind of load until ctx ends, on new connections every few seconds and each time on another number of them. It begins with as many
// as there will ever be, for the time that no trend is drawn from: what follows is below the peak, and memory that still grows is kept by something.
func (s *soak) comeAndGo(ctx context.Context, l load.Spec) error {
	most := l.Conns
	l.Run = time.Duration(s.minutes * float64(time.Minute) / unwatched)
	for ; ctx.Err() == nil; l.Conns, l.Run = 1+rand.IntN(most), time.Duration(3+rand.IntN(10))*time.Second {
		r, err := generate(ctx, l, nil)
		if err != nil && ctx.Err() == nil {
			return err
		}
		n, _ := s.done.LoadOrStore(l.Kind, new(atomic.Uint64))
		n.(*atomic.Uint64).Add(r.Requests)
	}
	return nil
}

// watch takes a sample each second.
func (s *soak) watch(ctx context.Context, r *peer.Running) error {
	start, tick := time.Now(), time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := look(ctx, r)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		now.Seconds = time.Since(start).Seconds()
		s.samples = append(s.samples, now)
		s.say.now("%.0f of %.0f s: %.1f MiB resident, %.0f goroutines", now.Seconds, s.minutes*60, now.RSS, now.Goroutines)
		if info, err := os.Stat(r.Audit); err == nil && info.Size() > 64<<20 {
			if err := os.Truncate(r.Audit, 0); err != nil {
				return err
			}
		}
	}
}

func look(ctx context.Context, r *peer.Running) (sample, error) {
	m, err1 := metrics(ctx, r.Admin)
	kib, err2 := proc.RSS(r.PID)
	anonymous, err3 := proc.Anonymous(r.PID)
	fds, err4 := proc.Descriptors(r.PID)
	return sample{RSS: kib / 1024, Anonymous: anonymous / 1024, Heap: m["go_memstats_heap_inuse_bytes"] / (1 << 20), Live: m["go_gc_heap_live_bytes"] / (1 << 20), Goroutines: m["go_goroutines"], Descriptors: float64(fds)},
		errors.Join(err1, err2, err3, err4)
}

// tell prints and draws what was seen.
func (s *soak) tell() error {
	s.say.done()
	var trends []trend
	for _, of := range []struct {
		name string
		mib  func(sample) float64
	}{
		{"resident", func(x sample) float64 { return x.RSS }},
		{"of it anonymous", func(x sample) float64 { return x.Anonymous }},
		{"live in Go's heap", func(x sample) float64 { return x.Live }},
	} {
		t, err := trendOf(of.name, s.samples, of.mib)
		if err != nil {
			return err
		}
		trends = append(trends, t)
	}
	var err error
	if s.format == "json" {
		err = json.NewEncoder(os.Stdout).Encode(map[string]any{"commit": commit(), "minutes": s.minutes, "rate": s.rate, "trends": trends, "samples": s.samples})
	} else {
		for _, t := range trends {
			fmt.Println(t)
		}
		s.done.Range(func(kind, n any) bool {
			fmt.Printf("%-11s %d requests answered\n", kind, n.(*atomic.Uint64).Load())
			return true
		})
	}
	if s.svgFile == "" || err != nil {
		return err
	}
	f, err := os.Create(s.svgFile)
	if err != nil {
		return err
	}
	defer f.Close()
	traces := []chart.Trace{{Name: "resident"}, {Name: "of it anonymous"}, {Name: "Go heap in use"}, {Name: "live in it, after each collection"}}
	for _, p := range s.samples {
		for i, y := range []float64{p.RSS, p.Anonymous, p.Heap, p.Live} {
			traces[i].X, traces[i].Y = append(traces[i].X, p.Seconds/60), append(traces[i].Y, y)
		}
	}
	return chart.Lines(f, "ackproxy's memory under mixed load", slopes(trends), "minutes", "MiB", traces)
}

// slopes are those of all trends in one line.
func slopes(all []trend) string {
	words := make([]string, len(all))
	for i, t := range all {
		words[i] = fmt.Sprintf("%s %+.2f ± %.2f", t.Of, t.Slope, t.Error)
	}
	return "MiB/hour: " + strings.Join(words, ", ")
}
