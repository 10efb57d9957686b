package proxy

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// recorder is an observer that keeps what it sees.
type recorder struct {
	mu  sync.Mutex
	all []*policy.Outcome
}

func (r *recorder) Observe(o *policy.Outcome) {
	o.Retain() // for good
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
}

func (r *recorder) seen() []*policy.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*policy.Outcome(nil), r.all...)
}

// source is a way a connection is read.
type source func(*Server)

// sources are the ways a connection is read; the connection tests run on each.
var sources = map[string]source{
	"tcp":      func(s *Server) { s.few = math.MaxInt },
	"net.Conn": func(s *Server) { s.wrap = func(c net.Conn) net.Conn { return hidden{c, c.(*net.TCPConn)} } },
	"loop":     func(s *Server) { s.few = 0 },
}

// hidden is a TCP connection that does not show that it is one.
type hidden struct {
	net.Conn
	tcp interface {
		CloseRead() error
		CloseWrite() error
		SetLinger(int) error
	}
}

func (h hidden) CloseRead() error      { return h.tcp.CloseRead() }
func (h hidden) CloseWrite() error     { return h.tcp.CloseWrite() }
func (h hidden) SetLinger(s int) error { return h.tcp.SetLinger(s) }

// start serves cfg on free ports until the test ends, and returns the server.
func start(t *testing.T, cfg Config, src source) *Server {
	t.Helper()
	cfg.Bootstrap, cfg.Advertise, cfg.BrokerPortsBase = "127.0.0.1:0", "127.0.0.1", 0
	if cfg.Log.GetLevel() == zerolog.Disabled || cfg.Log.GetLevel() == zerolog.TraceLevel {
		cfg.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if src != nil {
		src(s)
	}
	s.calm = time.Hour // scripted brokers count their connections
	s.reached.Store(new(time.Now()))
	serve(t, s)
	return s
}

// serve runs s until the test ends.
func serve(t *testing.T, s *Server) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func cluster(t *testing.T, brokers int, topics ...string) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.SeedTopics(3, topics...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// TestShareConsumer takes records to share consumers through the proxy, and compares what they acknowledged with what was observed.
func TestShareConsumer(t *testing.T) {
	for name, src := range sources {
		t.Run(name, func(t *testing.T) { shareConsumer(t, src) })
	}
}

func shareConsumer(t *testing.T, src source) {
	const records = 2000
	k := cluster(t, 3, "orders")
	seen := new(recorder)
	s := start(t, Config{Upstream: k.ListenAddrs(), Observers: []policy.Observer{seen}, StateDir: t.TempDir()}, src)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	p := client(t, kgo.SeedBrokers(s.Addr()), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	for i := range records {
		p.Produce(ctx, kgo.StringRecord(fmt.Sprint(i)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	earliest(ctx, t, p, "g")
	c := client(t, kgo.SeedBrokers(s.Addr()), kgo.ConsumeTopics("orders"), kgo.ShareGroup("g"), kgo.ShareMaxRecords(50), kgo.ShareMaxRecordsStrict(),
		kgo.FetchMaxWait(50*time.Millisecond))
	want := map[string]int{}
	for settled, polls := 0, 0; settled < records; polls++ {
		fs := c.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatal(err, settled)
		}
		for _, r := range fs.Records() {
			as, how := int8(policy.Accept), kgo.AckAccept
			switch {
			case r.Offset%5 == 1 && r.DeliveryCount() == 1:
				as, how = policy.Release, kgo.AckRelease
				settled--
			case r.Offset%5 == 2:
				as, how = policy.Reject, kgo.AckReject
			}
			settled++
			r.Ack(how)
			want[fmt.Sprint(r.Partition, r.Offset, as)]++
		}
		if polls%4 == 0 { // in between, acknowledgements ride on the next fetch
			if err := c.FlushAcks(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.FlushAcks(ctx); err != nil {
		t.Fatal(err)
	}
	c.Close()
	got, carriers := map[string]int{}, map[policy.Carrier]int{}
	for _, o := range seen.seen() {
		if o.Reply.State != policy.Answered || o.Reply.ErrorCode != 0 {
			t.Errorf("reply %+v to %v", o.Reply, o.Request.Carrier)
		}
		for topic := range o.Request.Topics.All() {
			if name, _ := s.TopicName(topic.TopicID); name != "orders" {
				t.Errorf("topic name %q", name)
			}
			for part := range topic.Partitions.All() {
				for b := range part.Batches.All() {
					for off := b.FirstOffset; off <= b.LastOffset; off++ {
						typ := b.Types[0]
						if len(b.Types) > 1 {
							typ = b.Types[off-b.FirstOffset]
						}
						got[fmt.Sprint(part.PartitionIndex, off, int8(typ))]++
						carriers[o.Request.Carrier]++
					}
				}
			}
		}
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("acknowledged %s %d times, observed %d", k, n, got[k])
		}
	}
	for k := range got {
		if want[k] == 0 {
			t.Errorf("invented %s", k)
		}
	}
	if carriers[policy.ShareFetch] == 0 || carriers[policy.ShareAcknowledge] == 0 {
		t.Errorf("carriers %v: both wanted", carriers)
	}
	md, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, p)
	if err != nil || len(md.Brokers) != 3 {
		t.Fatal(err, md)
	}
	own := map[int32]bool{}
	for _, l := range s.snapshot() {
		own[l.port] = true
	}
	for _, b := range md.Brokers {
		if !own[b.Port] {
			t.Errorf("a client was told of %s:%d", b.Host, b.Port)
		}
	}
}

// earliest lets a share group start with the records that are there.
func earliest(ctx context.Context, t *testing.T, cl *kgo.Client, group string) {
	t.Helper()
	value := "earliest"
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: group,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "share.auto.offset.reset", Value: &value}}}}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil || resp.Resources[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
}
