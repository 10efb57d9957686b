// Command run kills ackproxy at random moments while every record is rejected and dead-lettered, and ends with one line that says what came
// of it; its exit status is 1 when a dead letter is missing or altered.
//
//	go run ./e2e/crash/run -runs 1000
//	go run ./e2e/crash/run -runs 100 -broker kafka
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ackproxy/ackproxy/e2e/crash"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

var (
	runs   = flag.Int("runs", 1000, "how often the proxy is killed")
	broker = flag.String("broker", "kfake", "kfake, the embedded broker, or kafka, a real one")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of records and moments")
)

func main() {
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "crash-")
	if err != nil {
		return err
	}
	o := crash.Options{Dir: dir, Program: filepath.Join(dir, "ackproxy"), Runs: *runs, Seed: *seed, Progress: os.Stderr}
	if err := kafka.Run(ctx, "go", "build", "-buildvcs=false", "-o", o.Program, "github.com/ackproxy/ackproxy/cmd/ackproxy"); err != nil {
		return err
	}
	switch *broker {
	case "kfake":
		if o.Broker, err = crash.NewFake(0.1); err != nil {
			return err
		}
	case "kafka":
		c, err := kafka.Boot(ctx, kafka.Options{Version: kafka.Versions[0], Nodes: 1})
		if err != nil {
			return err
		}
		defer c.Close()
		if o.Broker, err = crash.NewReal(c); err != nil {
			return err
		}
	default:
		return fmt.Errorf("-broker %s: write kfake or kafka", *broker)
	}
	defer func() { err = errors.Join(err, o.Broker.Close()) }()
	r, err := crash.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("seed %d: %w; files are kept in %s", *seed, err, dir)
	}
	for _, w := range r.Wrong {
		fmt.Fprintln(os.Stderr, w)
	}
	fmt.Fprintf(os.Stderr, "seed %d: %d further Rejects reached the broker without an answer; letters waited in the spool at %d of the kills\n", *seed, r.Unknown, r.Spooled)
	fmt.Println(r)
	if !r.OK() {
		return fmt.Errorf("files are kept in %s", dir)
	}
	return os.RemoveAll(dir)
}
