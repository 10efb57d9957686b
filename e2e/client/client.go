// Package client runs members of share groups for tests, each in a process of its own: Java's KafkaShareConsumer, librdkafka through
// confluent-kafka for Python, and franz-go's kgo. All take the same arguments, acknowledge by the same pattern and print the same lines.
package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// Kind is a client library.
type Kind string

// The kinds.
const (
	Java   Kind = "java"
	Python Kind = "python"
	Kgo    Kind = "kgo"
)

// Kinds are all of them.
var Kinds = []Kind{Java, Python, Kgo}

// The modes. In the implicit ones what was polled is accepted by the next poll or commit; in the explicit ones each record is
// acknowledged by the pattern. Acknowledgements ride on ShareFetch, except in the sync modes, where a commit follows each poll.
const (
	Implicit     = "implicit"
	ImplicitSync = "implicit-sync"
	Explicit     = "explicit"
	ExplicitSync = "explicit-sync"
	Produce      = "produce" // Kgo only: write Count records instead
)

// Spec is what a client is told.
type Spec struct {
	Kind             Kind
	Bootstrap        string // host:port, joined by commas
	Topic, Group, ID string // ID is the client id
	Mode             string
	Count            int // records to settle before it ends by itself; 0 goes on until Stop
	Seed             int // shifts the pattern
	Rejects          int // above 0: of a hundred records so many are released, and rejected when they come again; all others are accepted
	MaxPoll          int // records a poll; 100 when 0
	Renew            bool
	RecordLimit      bool          // a fetch takes MaxPoll records, not whole batches; Java and Kgo
	Interval         time.Duration // of a producer, between batches
	Size             int           // of a producer, bytes of each record in every tenth batch
	Log              string        // file for all that it prints
}

// Event is a line that a client prints.
type Event struct {
	Event string // ack, result, commit, nodes, error, closed

	Topic         string
	Partition     int32
	Offset        int64   // ack
	DeliveryCount int     `json:"delivery_count"` // ack
	Type          string  // ack: accept, release, reject, renew
	Offsets       []int64 // result
	Error         *string // result, commit, error; nil is success
	Nodes         []string
	Settled       int // closed
}

// Client is a running client. Whoever started it waits for it or stops it.
type Client struct {
	Spec
	process *kafka.Process
	log     *os.File
	read    chan struct{} // closed when the last line is read

	mu      sync.Mutex
	events  []Event
	settled map[Record]bool
	asked   map[Record]string
	bad     error // the first line that is none
}

// Record is a record's place within a topic.
type Record struct {
	Partition int32
	Offset    int64
}

// Start starts a client.
func Start(ctx context.Context, s Spec) (*Client, error) {
	program, err := command(ctx, s.Kind)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	c := &Client{Spec: s, log: log, read: make(chan struct{}), settled: map[Record]bool{}, asked: map[Record]string{}}
	if c.process, err = kafka.Start(program[0], append(program[1:], s.args()...), kafka.ProcessOptions{Output: log, Stdout: w}); err != nil {
		return nil, err
	}
	go c.lines(r)
	return c, nil
}

func (s Spec) args() []string {
	poll := s.MaxPoll
	if poll == 0 {
		poll = 100
	}
	a := []string{"--bootstrap", s.Bootstrap, "--topic", s.Topic, "--group", s.Group, "--client-id", s.ID, "--mode", s.Mode,
		"--count", strconv.Itoa(s.Count), "--seed", strconv.Itoa(s.Seed), "--max-poll", strconv.Itoa(poll),
		"--rejects", strconv.Itoa(s.Rejects)}
	if s.Kind == Python {
		return a
	}
	if s.RecordLimit {
		a = append(a, "--acquire", "record_limit")
	}
	if s.Kind == Java {
		return append(a, "--renew", strconv.FormatBool(s.Renew))
	}
	return append(a, "--renew="+strconv.FormatBool(s.Renew), "--interval", s.Interval.String(), "--size", strconv.Itoa(s.Size))
}

func (c *Client) lines(r io.ReadCloser) {
	defer close(c.read)
	defer r.Close()
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		fmt.Fprintln(c.log, scan.Text())
		var e Event
		err := json.Unmarshal(scan.Bytes(), &e)
		c.mu.Lock()
		if err != nil && c.bad == nil {
			c.bad = fmt.Errorf("line %q: %w", scan.Text(), err)
		}
		c.events = append(c.events, e)
		c.count(e)
		c.mu.Unlock()
	}
	if err := scan.Err(); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bad = err
	}
}

// count keeps what is settled as the client itself does.
func (c *Client) count(e Event) {
	switch {
	case e.Event == "ack":
		c.asked[Record{e.Partition, e.Offset}] = e.Type
	case e.Event == "result" && e.Error == nil:
		for _, o := range e.Offsets {
			r := Record{e.Partition, o}
			if t := c.asked[r]; t == "accept" || t == "reject" {
				c.settled[r] = true
			}
		}
	}
}

// PID is the client's process id.
func (c *Client) PID() int { return c.process.PID() }

// Settled is the number of records whose accept or reject the client was told to have succeeded, so far.
func (c *Client) Settled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.settled)
}

// Events is what the client printed so far.
func (c *Client) Events() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[:len(c.events):len(c.events)]
}

// Running says that the process has not ended.
func (c *Client) Running() bool {
	select {
	case <-c.process.Done():
		return false
	default:
		return true
	}
}

// Wait waits until the client has ended by itself. When ctx ends first it is killed.
func (c *Client) Wait(ctx context.Context) error { return c.ended(c.process.Wait(ctx)) }

// Stop sends SIGTERM, upon which a client closes its consumer, and waits.
func (c *Client) Stop() error {
	err := c.process.Stop(40 * time.Second)
	if c.Kind == Java && err != nil && err.Error() == "exit status 143" {
		err = nil // a JVM that ended by SIGTERM says so even when all went well
	}
	return c.ended(err)
}

// Kill ends the process without a chance to close its consumer.
func (c *Client) Kill() error { return c.process.Kill() }

func (c *Client) ended(err error) error {
	<-c.read
	c.log.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.bad
	}
	if err == nil && (len(c.events) == 0 || c.events[len(c.events)-1].Event != "closed") {
		err = fmt.Errorf("its last line does not say that it closed")
	}
	if err != nil {
		return fmt.Errorf("%s client %s: %w\n%s", c.Kind, c.ID, err, kafka.Tail(c.Log, 30))
	}
	return nil
}
