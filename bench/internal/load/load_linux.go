// Package load is the benchmark's client: one thread that keeps a number of requests outstanding on each of many connections, checks
// every answer's correlation id and size, and measures.
package load

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/frames"
	"github.com/ackproxy/ackproxy/bench/internal/hist"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
)

// Spec says what load to make.
type Spec struct {
	Addr         string
	Kind         frames.Kind
	ShareVersion int16
	Conns, Depth int            // requests outstanding on each connection
	Rate         float64        // requests a second on all connections together; 0: as many as get through
	Warm, Run    time.Duration  // before and during the measurement
	AtLeast      uint64         // the measurement goes on until so many requests are answered
	Watch        map[string]int // processes, by name, whose CPU time during the measurement is to be told
	Gate         bool           // wait for a line on standard input before the measurement and before the end
	Hold         []int          // instead of load: connect up to so many, one request on each, and wait for a line, for each step
}

// Result is what was measured.
type Result struct {
	Error    string // nothing else counts when set
	Requests uint64
	Seconds  float64
	P50, P99, P999, Max,
	Mean time.Duration
	CPU      map[string]float64 // seconds, by name; "generator" is this process
	BytesOut uint64             // in frames of the measurement, to the proxy
	BytesIn  uint64
}

// stall ends a run in which nothing is answered any more.
const stall = 10 * time.Second

// conn is one connection.
type conn struct {
	fd     int
	in     epoll.Inbox
	sent   []time.Time // ring of Depth: when each outstanding request was sent
	ids    []int32     // scratch of Depth
	next   int32       // correlation id of the next request
	expect int32       // of the next answer
	owed   int         // requests that may be sent now
	off    int         // bytes of the first owed one that are sent
	full   bool        // the socket took no more; an edge will tell
}

// loop is one run.
type loop struct {
	spec      Spec
	poll      *epoll.Poll
	train     *epoll.Train
	answer    int // bytes of an answer
	conns     []*conn
	current   *conn
	now       time.Time
	answered  int // by the current connection, in this turn
	whole     func(*epoll.Head) error
	buf       []byte
	measuring bool
	stopping  bool
	tokens    float64 // requests that Rate allows now
	turn      int     // the connection that gets the next token
	lastAt    time.Time
	progress  time.Time
	hist      hist.H
}

// Run runs a load to its end. gate is called as Spec.Gate and Spec.Hold say, with the word that stands for the place.
func Run(spec Spec, gate func(word string) error) (Result, error) {
	pair, err := frames.Build(spec.Kind, spec.ShareVersion)
	if err != nil {
		return Result{}, err
	}
	l := &loop{spec: spec, train: epoll.NewTrain(pair.Request, frames.RequestID), answer: len(pair.Response), buf: make([]byte, 64<<10)}
	l.whole = l.frame
	if l.poll, err = epoll.New(); err != nil {
		return Result{}, err
	}
	defer l.close()
	if len(spec.Hold) > 0 {
		return Result{}, l.hold(gate)
	}
	if err := l.connect(spec.Conns); err != nil {
		return Result{}, err
	}
	return l.measure(gate)
}

func (l *loop) measure(gate func(string) error) (Result, error) {
	for _, c := range l.conns {
		if l.spec.Rate == 0 {
			c.owed = l.spec.Depth
		}
		if err := l.send(c); err != nil {
			return Result{}, err
		}
	}
	if err := l.turnUntil(time.Now().Add(l.spec.Warm), 0); err != nil {
		return Result{}, err
	}
	if l.spec.Gate {
		if err := gate("warm"); err != nil {
			return Result{}, err
		}
	}
	before, err := proc.CPUOf(l.spec.Watch)
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	l.measuring = true
	if err := l.turnUntil(start.Add(l.spec.Run), l.spec.AtLeast); err != nil {
		return Result{}, err
	}
	l.measuring = false
	end := time.Now()
	after, err := proc.CPUOf(l.spec.Watch)
	if err != nil {
		return Result{}, err
	}
	if l.spec.Gate {
		if err := gate(fmt.Sprintf("done %d", l.hist.N())); err != nil {
			return Result{}, err
		}
	}
	r := l.result(end.Sub(start))
	for name := range after {
		r.CPU[name] = (after[name] - before[name]).Seconds()
	}
	return r, l.finish()
}

func (l *loop) result(d time.Duration) Result {
	h := &l.hist
	return Result{Requests: h.N(), Seconds: d.Seconds(), P50: h.Quantile(.5), P99: h.Quantile(.99), P999: h.Quantile(.999), Max: h.Max(),
		Mean: h.Mean(), CPU: map[string]float64{}, BytesOut: h.N() * uint64(l.train.Frame()), BytesIn: h.N() * uint64(l.answer)}
}

// finish takes the answers that are still to come, so that connections end quietly.
func (l *loop) finish() error {
	l.stopping, l.progress = true, time.Now()
	for _, c := range l.conns {
		c.owed = min(c.owed, min(c.off, 1)) // a request that has begun is sent to its end
		for c.expect != c.next || c.off > 0 {
			if err := l.once(100); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) connect(upTo int) error {
	addr, err := netip.ParseAddrPort(l.spec.Addr)
	if err != nil {
		return err
	}
	for len(l.conns) < upTo {
		fd, err := epoll.Connect(addr)
		if err != nil {
			return err
		}
		depth := max(l.spec.Depth, 1)
		c := &conn{fd: fd, sent: make([]time.Time, depth), ids: make([]int32, depth)}
		l.conns = append(l.conns, c)
		if err := l.poll.Add(fd, int32(len(l.conns)-1)); err != nil {
			return err
		}
	}
	return nil
}

// hold keeps connections that have each had an answer and do nothing.
func (l *loop) hold(gate func(string) error) error {
	for _, n := range l.spec.Hold {
		for have := len(l.conns); have < n; have = len(l.conns) { // some at a time: proxies may be slow to connect further
			if err := l.connect(min(have+64, n)); err != nil {
				return fmt.Errorf("with %d connections: %w", have, err)
			}
			for _, c := range l.conns[have:] {
				c.owed = 1
				if err := l.send(c); err != nil {
					return err
				}
			}
			if err := l.finish(); err != nil {
				return fmt.Errorf("with %d connections: %w", have, err)
			}
			l.stopping = false
		}
		if err := gate(fmt.Sprintf("held %d", n)); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) close() {
	for _, c := range l.conns {
		epoll.Close(c.fd)
	}
}

var errStalled = errors.New("no answer for 10 s")
