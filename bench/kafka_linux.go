package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const kafkaUsage = `Produce to a real broker and consume in a share group with franz-go, directly, through ackproxy and through relays that read nothing:
records a second when as much is produced as is consumed, and the time from produce to poll at a given rate. Needs Java 17, and Maven the first time.

  go run ./bench kafka -seconds 30`

// javaOptions are added to those of the test harness, which keep brokers small: HotSpot lets this variable win.
const javaOptions = "-Xms1g -Xmx1g -XX:TieredStopAtLevel=4"

const kafkaVersion = "4.4.0"

// kafkaRun is a run of kafkaCommand.
type kafkaRun struct {
	bench
	seconds    float64
	warm       int // rounds
	rate       float64
	partitions int
	cluster    *kafka.Cluster
}

func (k *kafkaRun) parse(args []string) error {
	f := newFlags(kafkaUsage)
	f.Float64Var(&k.seconds, "seconds", 30, "of each measurement, all rounds together")
	f.IntVar(&k.rounds, "rounds", 5, "how often everything is measured")
	f.IntVar(&k.warm, "warm", 3, warmUsage)
	f.StringVar(&k.peersOptions.peers, "peers", "direct,relay,haproxy,ackproxy,ackproxy-audit", "contenders, comma-separated")
	f.Float64Var(&k.rate, "rate", 1000, "records a second for the latency; 0 leaves it out")
	f.IntVar(&k.partitions, "partitions", 6, "of the topic")
	f.StringVar(&k.format, "o", "text", "what is printed: text or json")
	f.StringVar(&k.jsonFile, "json", "", "write the report to `FILE`, for compare")
	f.StringVar(&k.ackproxy, "ackproxy", "", "the proxy's program (default: built from this checkout)")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if k.seconds <= 0 || k.rounds < 1 || k.warm < 0 || k.rate < 0 || k.partitions < 1 || k.format != "text" && k.format != "json" {
		return misuse{errors.New("-seconds, -rounds and -partitions must be above 0, no number below, -o text or json")}
	}
	return nil
}

func kafkaCommand(ctx context.Context, args []string) (err error) {
	k := &kafkaRun{bench: bench{running: map[string]*peer.Running{}, say: newProgress(), random: rand.New(rand.NewPCG(1, 0))}}
	if err := k.parse(args); err != nil {
		return err
	}
	if k.dir, err = os.MkdirTemp("", "ackproxy-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(k.dir)
	defer func() {
		k.stop()
		if k.cluster != nil {
			err = errors.Join(err, k.cluster.Close())
		}
	}()
	if err := k.boot(ctx, args); err != nil {
		return err
	}
	for round := -k.warm; round < k.rounds; round++ {
		for _, at := range k.random.Perm(len(k.peers)) {
			r := k.running[k.peers[at].Name]
			k.say.now("%s: %s", k.nth(round), r.Name)
			if err := k.measure(ctx, r, round); err != nil {
				return fmt.Errorf("%s: %w\n%s%s", r.Name, err, r.Logs(), k.cluster.Logs(10))
			}
		}
	}
	k.report.Seconds = time.Since(k.report.Started).Seconds()
	k.say.done()
	return k.tell(report.KafkaBudgets())
}

const warmUsage = "rounds before those, which do not count: Java compiles what it has done often, for a minute or more"

// nth puts a round into words. Those below 0 are to warm up.
func (k *kafkaRun) nth(round int) string {
	if round < 0 {
		return fmt.Sprintf("warming up, %d rounds to go", -round)
	}
	return fmt.Sprintf("round %d of %d", round+1, k.rounds)
}

// boot starts the broker and the contenders.
func (k *kafkaRun) boot(ctx context.Context, args []string) (err error) {
	k.report = &report.Report{Format: report.Format, Mode: "kafka", Started: time.Now(), Command: append([]string{"kafka"}, args...), Commit: commit(),
		Go: runtime.Version(), Machine: proc.ReadMachine(runtime.NumCPU()), Rounds: k.rounds}
	if k.ackproxy == "" {
		k.say.now("building ackproxy")
		if k.ackproxy, err = peer.BuildAckproxy(ctx, k.dir); err != nil {
			return err
		}
	}
	k.say.now("booting Kafka %s", kafkaVersion)
	if err := errors.Join(epoll.RaiseDescriptorLimit(), os.Setenv("_JAVA_OPTIONS", javaOptions)); err != nil {
		return err
	}
	if k.cluster, err = kafka.Boot(ctx, kafka.Options{Version: kafkaVersion, Nodes: 1}); err != nil {
		return err
	}
	_, text, err := net.SplitHostPort(k.cluster.Bootstrap())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if err := k.find(ctx); err != nil {
		return err
	}
	for _, p := range k.peers {
		if k.running[p.Name], err = p.Start(ctx, k.dir, port); err != nil {
			return err
		}
	}
	k.report.Workloads = []report.Workload{
		{Name: "kafka-throughput", Title: fmt.Sprintf("Kafka %s, franz-go: one producer and one member of a share group, records of 1 KiB, %d partitions",
			kafkaVersion, k.partitions), Show: []report.Metric{report.Records, report.Bandwidth, report.CPURecord, report.RSS}},
		{Name: "kafka-latency", Title: fmt.Sprintf("the same at %.0f records/s: from produce to poll", k.rate),
			Show: []report.Metric{report.Records, report.P50, report.P99, report.P999}},
	}
	return nil
}

// measure adds both measurements of one round, on a topic and a group of their own.
func (k *kafkaRun) measure(ctx context.Context, r *peer.Running, round int) error {
	for _, w := range []struct {
		name string
		rate float64
	}{{"kafka-throughput", 0}, {"kafka-latency", k.rate}} {
		if w.name == "kafka-latency" && w.rate == 0 {
			continue
		}
		topic := fmt.Sprintf("%s-%s-%d", w.name, r.Name, round)
		if _, err := k.cluster.CreateTopic(ctx, topic, int32(k.partitions)); err != nil {
			return err
		}
		if err := k.cluster.ShareGroup(ctx, topic, nil); err != nil {
			return err
		}
		f := flow{seeds: r.Addr, topic: topic, rate: w.rate, window: time.Duration(k.seconds / float64(k.rounds) * float64(time.Second)), pid: r.PID}
		if err := f.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if round >= 0 {
			k.report.Cell(r.Name, w.name).Add(f.figures())
		}
		if _, err := k.cluster.Admin().DeleteTopics(ctx, topic); err != nil {
			return err
		}
	}
	if r.PID == 0 || round < 0 {
		return nil
	}
	kib, err := proc.RSS(r.PID)
	k.report.Cell(r.Name, "kafka-throughput").Add(map[report.Metric]float64{report.RSS: kib / 1024})
	return err
}

func (k *kafkaRun) tell(budgets []report.Budget) error {
	if k.format == "json" {
		if err := json.NewEncoder(os.Stdout).Encode(k.report); err != nil {
			return err
		}
	} else {
		k.report.Table(os.Stdout)
		fmt.Println()
		k.report.BudgetTable(os.Stdout, budgets)
	}
	if k.jsonFile == "" {
		return nil
	}
	return k.report.Save(k.jsonFile)
}
