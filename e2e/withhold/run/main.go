// Command run withholds acknowledgements at random, on a real broker with real clients, and ends with one line that says what came of it;
// its exit status is 1 when something is not as it must be.
//
//	go run ./e2e/withhold/run -seconds 600
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ackproxy/ackproxy/e2e/kafka"
	"github.com/ackproxy/ackproxy/e2e/withhold"
)

var (
	seconds = flag.Int("seconds", 600, "how long acknowledgements are withheld")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the policy's choices")
)

func main() {
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	ok, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withhold:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "withhold-")
	if err != nil {
		return false, err
	}
	c, err := kafka.Boot(ctx, kafka.Options{Version: kafka.Versions[0], Nodes: 1})
	if err != nil {
		return false, err
	}
	defer c.Close()
	o := withhold.Options{Cluster: c, Name: "withhold", Dir: dir, Time: time.Duration(*seconds) * time.Second, Stay: 15 * time.Second, Seed: *seed}
	if i, err := os.Stderr.Stat(); err == nil && i.Mode()&os.ModeCharDevice != 0 {
		o.Progress = io.Writer(os.Stderr)
	}
	r, err := withhold.Run(ctx, o)
	if err != nil {
		return false, fmt.Errorf("seed %d: %w; files are kept in %s", *seed, err, dir)
	}
	for _, w := range r.Wrong {
		fmt.Fprintln(os.Stderr, w)
	}
	fmt.Fprintf(os.Stderr, "Apache Kafka %s, seed %d: %s\n", c.Version, *seed, r.Detail)
	fmt.Println(r)
	if !r.OK() {
		return false, fmt.Errorf("files are kept in %s", dir)
	}
	return true, os.RemoveAll(dir)
}
