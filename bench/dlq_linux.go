package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/peer"
	"github.com/ackproxy/ackproxy/bench/internal/proc"
	"github.com/ackproxy/ackproxy/bench/internal/report"
	"github.com/ackproxy/ackproxy/bench/internal/stats"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

const dlqUsage = `Have a share group on a real broker work off a backlog of 1 KiB records, and reject none, 1 % and all of them: through ackproxy without a
policy, and through one whose policy writes dead letters to the same broker. Then flood the policy with large rejects while the dead-letter cluster does
not answer, and watch the resident memory. Needs Java 17, and Maven the first time.

  go run ./bench dlq -rounds 5`

// dlqRun is a run of dlqCommand.
type dlqRun struct {
	kafkaRun
	members, backlog int
	work             time.Duration
	flood            float64 // seconds
	only             string
}

const (
	dlqTopic  = "backlog"
	dlqOff    = "ackproxy"
	dlqOn     = "ackproxy-dlq"
	dlqSilent = "ackproxy-dlq-silent" // the flood's
	dlqSmall  = "ackproxy-dlq-small"  // as well
)

// rejectShares are of a hundred records.
var rejectShares = []int{0, 1, 100}

func rejectWorkload(share int) string { return "rejects-" + strconv.Itoa(share) }

func (d *dlqRun) parse(args []string) error {
	f := newFlags(dlqUsage)
	f.Float64Var(&d.seconds, "seconds", 5, "of each measurement of a round")
	f.IntVar(&d.rounds, "rounds", 5, "how often everything is measured")
	f.IntVar(&d.warm, "warm", 3, warmUsage)
	f.IntVar(&d.partitions, "partitions", 16, "of the topic")
	f.IntVar(&d.members, "members", 16, "of the share group")
	f.DurationVar(&d.work, "work", 0, "what a member takes for the records of a poll; with 0 broker, members and proxy are out of CPU time")
	f.IntVar(&d.backlog, "backlog", 1_500_000, "records of 1 KiB that wait")
	f.Float64Var(&d.flood, "flood", 20, "seconds of the flood; 0 leaves it out")
	f.StringVar(&d.only, "rejects", "", "measure this share of rejects alone: 0, 1 or 100")
	f.StringVar(&d.format, "o", "text", "what is printed: text or json")
	f.StringVar(&d.jsonFile, "json", "", "write the report to `FILE`, for compare")
	f.StringVar(&d.ackproxy, "ackproxy", "", "the proxy's program (default: built from this checkout)")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if d.seconds <= 0 || d.rounds < 0 || d.warm < 0 || d.work < 0 || d.partitions < 1 || d.members < 1 || d.backlog < 1000 || d.format != "text" && d.format != "json" {
		return misuse{errors.New("all numbers must be above 0, -o text or json")}
	}
	return nil
}

func dlqCommand(ctx context.Context, args []string) (err error) {
	d := &dlqRun{kafkaRun: kafkaRun{bench: bench{running: map[string]*peer.Running{}, say: newProgress(), random: rand.New(rand.NewPCG(1, 0))}}}
	if err := d.parse(args); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "ackproxy-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	defer func() {
		d.stop()
		if d.cluster != nil {
			err = errors.Join(err, d.cluster.Close())
		}
	}()
	if err := d.boot(ctx, args); err != nil {
		return err
	}
	if d.rounds == 0 {
		d.warm = 0
	}
	for round := -d.warm; round < d.rounds; round++ {
		if err := d.round(ctx, round); err != nil {
			return fmt.Errorf("%w\n%s", err, d.cluster.Logs(10))
		}
	}
	d.ratios()
	if d.flood > 0 {
		if err := d.flooded(ctx); err != nil {
			return fmt.Errorf("flood: %w\n%s", err, d.cluster.Logs(10))
		}
	}
	d.report.Seconds = time.Since(d.report.Started).Seconds()
	d.say.done()
	return d.tell(report.DLQBudgets(dlqOn, dlqOff))
}

// boot starts the broker, fills the backlog, and starts the proxies.
func (d *dlqRun) boot(ctx context.Context, args []string) (err error) {
	d.report = &report.Report{Format: report.Format, Mode: "dlq", Started: time.Now(), Command: append([]string{"dlq"}, args...), Commit: commit(),
		Go: runtime.Version(), Machine: proc.ReadMachine(runtime.NumCPU()), Rounds: d.rounds}
	for _, share := range rejectShares {
		d.report.Workloads = append(d.report.Workloads, report.Workload{Name: rejectWorkload(share), Title: fmt.Sprintf(
			"Kafka %s, franz-go: %d members of a share group, %d records a poll, 1 KiB each, %d partitions; %d %% rejected", kafkaVersion, d.members,
			pollRecords, d.partitions, share), Show: []report.Metric{report.Records, report.CPURecord, report.BrokerRec, report.ClientRec, report.RSS}})
	}
	if d.ackproxy == "" {
		d.say.now("building ackproxy")
		if d.ackproxy, err = peer.BuildAckproxy(ctx, d.dir); err != nil {
			return err
		}
	}
	d.say.now("booting Kafka %s", kafkaVersion)
	if err := errors.Join(epoll.RaiseDescriptorLimit(), os.Setenv("_JAVA_OPTIONS", javaOptions)); err != nil {
		return err
	}
	if d.cluster, err = kafka.Boot(ctx, kafka.Options{Version: kafkaVersion, Nodes: 1}); err != nil {
		return err
	}
	if err := d.fill(ctx, dlqTopic, d.backlog, recordBytes); err != nil {
		return err
	}
	return errors.Join(d.proxy(ctx, dlqOff, "no policy", "", limits{}), d.proxy(ctx, dlqOn, "dead letters to the same broker", d.cluster.Bootstrap(), usual))
}

const dlqConfiguration = `protocol: {keep_records: %dMiB, max_buffered: %dMiB, max_frame: 32MiB}
policies:
- name: dlq
  builtin: dlq
  config: {cluster: {bootstrap: [%q]}, source: {bootstrap: [%q]}, topic: "dlq.{group}", memory: %dMiB, max_record: %dMiB}
`

// limits are those of memory in the configuration, in MiB.
type limits struct{ keepRecords, maxBuffered, memory int }

const (
	maxRecord   = 8  // MiB, in all configurations
	programSize = 64 // MiB, of the proxy without what these limits are about
)

func (l limits) sum() int { return l.keepRecords + l.maxBuffered + l.memory }

// bound is what may be resident, in MiB, as docs/dead-letters.md has it.
func (l limits) bound() int { return 2*(l.sum()+3*max(l.memory/4, maxRecord)) + programSize }

var usual, small = limits{64, 256, 64}, limits{16, 32, 16} // usual: the defaults

// proxy starts a proxy with the dead-letter policy, or without where letters is empty.
func (d *dlqRun) proxy(ctx context.Context, name, title, letters string, l limits) error {
	var flags []string
	if letters != "" {
		text := fmt.Sprintf(dlqConfiguration, l.keepRecords, l.maxBuffered, letters, d.cluster.Bootstrap(), l.memory, maxRecord)
		file := filepath.Join(d.dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		flags = []string{"--config", file}
	}
	p, err := peer.Ackproxy(name, d.ackproxy, peer.Nothing, flags...)
	if err != nil {
		return err
	}
	p.Title = title
	d.peers = append(d.peers, p)
	d.report.Peers = append(d.report.Peers, report.Peer{Name: p.Name, Title: p.Title, Version: p.Version})
	r, err := p.Start(ctx, d.dir, d.port())
	if err == nil {
		d.running[name] = r
	}
	return err
}

// port is the broker's.
func (d *dlqRun) port() int {
	_, text, _ := strings.Cut(d.cluster.Bootstrap(), ":")
	port, _ := strconv.Atoi(text)
	return port
}

// fill makes a topic with n records of so many bytes.
func (d *dlqRun) fill(ctx context.Context, topic string, n, bytes int) error {
	d.say.now("writing %d records of %d bytes", n, bytes)
	if _, err := d.cluster.CreateTopic(ctx, topic, int32(d.partitions)); err != nil {
		return err
	}
	// A batch has what a poll returns, as brokers acquire whole batches.
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.cluster.Bootstrap()), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(int32(min(pollRecords*(bytes+16), 900_000))), kgo.ProducerLinger(50*time.Millisecond), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.MaxBufferedBytes(64<<20))
	if err != nil {
		return err
	}
	defer cl.Close()
	value := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(value)
	failed := kgo.AbortingFirstErrPromise(cl)
	for range n {
		cl.Produce(ctx, &kgo.Record{Value: value}, failed.Promise())
	}
	return errors.Join(cl.Flush(ctx), failed.Err())
}

// round measures all shares through both proxies, in any order.
func (d *dlqRun) round(ctx context.Context, round int) error {
	for _, at := range d.random.Perm(2 * len(rejectShares)) {
		share, name := rejectShares[at/2], []string{dlqOff, dlqOn}[at%2]
		if d.only != "" && d.only != strconv.Itoa(share) {
			continue
		}
		d.say.now("%s: %s, %d %% rejected", d.nth(round), name, share)
		if err := d.measure(ctx, d.running[name], round, share); err != nil {
			return fmt.Errorf("%s, %d %% rejected: %w\n%s", name, share, err, d.running[name].Logs())
		}
	}
	return nil
}

// measure adds a measurement, by a group of its own, and sees to it that the dead letters are there.
func (d *dlqRun) measure(ctx context.Context, r *peer.Running, round, share int) error {
	group := fmt.Sprintf("%s-%d-%d", r.Name, share, round)
	letters := "dlq." + group
	if err := d.cluster.ShareGroup(ctx, group, nil); err != nil {
		return err
	}
	if _, err := d.cluster.CreateTopic(ctx, letters, int32(d.partitions)); err != nil {
		return err
	}
	c := crew{seeds: r.Addr, topic: dlqTopic, group: group, members: d.members, rejects: share, backlog: d.backlog, work: d.work, warm: flowWarm,
		window: time.Duration(d.seconds * float64(time.Second)), pids: d.pids(r)}
	figures, err := c.run(ctx)
	if err != nil {
		return err
	}
	kib, err := proc.RSS(r.PID)
	if err != nil {
		return err
	}
	figures[report.RSS] = kib / 1024
	if round >= 0 {
		d.report.Cell(r.Name, rejectWorkload(share)).Add(figures)
	}
	if r.Name == dlqOn {
		if err := d.complete(ctx, letters, c.rejected.Load()); err != nil {
			return err
		}
	}
	_, err = d.cluster.Admin().DeleteTopics(ctx, letters)
	return err
}

// pids are the processes whose CPU time is told, by who they are to the metrics.
func (d *dlqRun) pids(r *peer.Running) map[report.Metric]int {
	return map[report.Metric]int{report.CPURecord: r.PID, report.BrokerRec: d.cluster.Nodes[0].PID(), report.ClientRec: os.Getpid()}
}

// complete waits until a dead-letter topic has a letter for each Reject; some may have come by the spool.
func (d *dlqRun) complete(ctx context.Context, letters string, rejects int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var n int64
	err := kafka.Until(ctx, "dead letters", func(ctx context.Context) bool {
		ends, err := d.cluster.Admin().ListEndOffsets(ctx, letters)
		n = 0
		ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
		return err == nil && n >= rejects
	})
	if err != nil {
		return fmt.Errorf("%d of %d: %w", n, rejects, err)
	}
	return nil
}

// ratios says what the policy costs.
func (d *dlqRun) ratios() {
	for _, share := range rejectShares {
		off, on := d.report.Figures(dlqOff, rejectWorkload(share), report.Records), d.report.Figures(dlqOn, rejectWorkload(share), report.Records)
		if len(off) == 0 || len(on) == 0 {
			continue
		}
		ratio := stats.Median(stats.Ratios(on, off)) // round by round
		d.report.Findings = append(d.report.Findings, fmt.Sprintf("%d %% rejected: with dead letters %.2f of the throughput without", share, ratio))
	}
}
