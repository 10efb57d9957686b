// Command kgo is a member of a share group that acknowledges by a pattern and prints what it does, or a producer: see README.md of the
// end-to-end tests for the arguments and the lines, which the clients in Java and Python share.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// args are the arguments, as all clients have them.
type args struct {
	bootstrap, topic, group, clientID, mode, acquire string
	count, seed, maxPoll, size, rejects              int
	renew                                            bool
	interval                                         time.Duration // between the batches of a producer
}

func main() {
	var a args
	flag.StringVar(&a.bootstrap, "bootstrap", "", "brokers, host:port, joined by commas")
	flag.StringVar(&a.topic, "topic", "", "topic")
	flag.StringVar(&a.group, "group", "", "share group")
	flag.StringVar(&a.clientID, "client-id", "", "client id")
	flag.StringVar(&a.mode, "mode", "", "implicit, implicit-sync, explicit, explicit-sync or produce")
	flag.StringVar(&a.acquire, "acquire", "", "record_limit bounds a fetch to max-poll records")
	flag.IntVar(&a.count, "count", 0, "records to settle, or to produce; 0 goes on until SIGTERM")
	flag.IntVar(&a.seed, "seed", 0, "shifts the pattern")
	flag.IntVar(&a.maxPoll, "max-poll", 100, "records a poll, at most")
	flag.BoolVar(&a.renew, "renew", false, "renew some records before they are accepted")
	flag.IntVar(&a.rejects, "rejects", 0, "of a hundred records, how many are released, and rejected when they come again; all others are accepted")
	flag.DurationVar(&a.interval, "interval", 0, "of a producer, between batches of ten")
	flag.IntVar(&a.size, "size", 0, "of a producer, bytes of each record in every tenth batch")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	run := share
	if a.mode == "produce" {
		run = produce
	}
	if err := run(ctx, a); err != nil {
		log.Fatal(err)
	}
}

// out writes the lines; callbacks and the poll loop share it.
var out = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

type fields map[string]any

func say(event string, f fields) {
	out.Lock()
	defer out.Unlock()
	f["event"] = event
	if err := out.Encode(f); err != nil {
		log.Fatal(err)
	}
}

func text(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

// dials reports the address of every broker that the library connects to: kgo shows no list of the addresses that it knows.
type dials struct {
	mu   sync.Mutex
	seen []string
}

func (d *dials) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, _ error) {
	addr := net.JoinHostPort(meta.Host, port(meta.Port))
	d.mu.Lock()
	defer d.mu.Unlock()
	if meta.NodeID >= 0 && !slices.Contains(d.seen, addr) { // seeds have negative ids
		d.seen = append(d.seen, addr)
		say("nodes", fields{"nodes": d.seen})
	}
}

func options(a args) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(a.bootstrap, ",")...), kgo.ClientID(a.clientID), kgo.WithHooks(&dials{}),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}
}
