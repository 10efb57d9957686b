//go:build unix

package e2e

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/e2e/plugin"
	"github.com/ackproxy/ackproxy/e2e/tap"
)

// inARow is how many requests go the same way before the next is measured: processes that take turns with each request are all cold.
const inARow = 100

// BenchmarkDecisionLatency sends one request after the other through ackproxy without a policy, with one in Go and with one in Python, in turns, and
// reports the median times, and what the policies add, of requests with acknowledgements and without.
//
//	go test -run '^$' -bench DecisionLatency -benchtime 50x ./e2e
func BenchmarkDecisionLatency(b *testing.B) {
	requests := map[string][]byte{"ack": encode(acknowledgement(), 1), "heartbeat": encode(kmsg.NewPtrHeartbeatRequest(), 4)}
	answers := map[int16][]byte{79: answer(&kmsg.ShareAcknowledgeResponse{Version: 1}), 12: answer(&kmsg.HeartbeatResponse{Version: 4})}
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	go serveAnswers(broker, answers)
	kinds := []string{"none", "go", "python"}
	conns := map[string]net.Conn{}
	for _, kind := range kinds {
		args := []string{"--log-level", "error"}
		switch kind {
		case "go":
			args = append(args, policies(b, plugin.Go(b), "orders")...)
		case "python":
			args = append(args, policies(b, plugin.Python(b), "orders")...)
		}
		g, err := gateway.Start(b.Context(), gateway.Options{Upstream: broker.Addr().String(), Brokers: 1, Dir: b.TempDir(), Args: args})
		if err != nil {
			b.Fatal(err)
		}
		defer g.Stop()
		if conns[kind], err = net.Dial("tcp", g.Bootstrap()); err != nil {
			b.Fatal(err)
		}
		defer conns[kind].Close()
	}
	took := map[string][]time.Duration{}
	for range b.N {
		for what, frame := range requests {
			for _, kind := range kinds {
				for range inARow {
					start := time.Now()
					if _, err := conns[kind].Write(frame); err != nil {
						b.Fatal(err)
					}
					if _, err := tap.ReadFrame(conns[kind]); err != nil {
						b.Fatal(what, kind, err)
					}
					took[what+"-"+kind] = append(took[what+"-"+kind], time.Since(start))
				}
			}
		}
	}
	median := func(name string) float64 {
		all := slices.Sorted(slices.Values(took[name]))
		return float64(all[len(all)/2]) / 1e3
	}
	for what := range requests {
		none := median(what + "-none")
		b.ReportMetric(none, what+"-none-µs")
		b.ReportMetric(median(what+"-go")-none, what+"-go-adds-µs")
		b.ReportMetric(median(what+"-python")-none, what+"-python-adds-µs")
	}
}

func acknowledgement() *kmsg.ShareAcknowledgeRequest {
	r := kmsg.NewPtrShareAcknowledgeRequest()
	group, member := "latency", "one"
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &group, &member, 1
	t := kmsg.NewShareAcknowledgeRequestTopic()
	p := kmsg.NewShareAcknowledgeRequestTopicPartition()
	for i := range int64(5) {
		a := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		a.FirstOffset, a.LastOffset, a.AcknowledgeTypes = 10*i, 10*i+9, []int8{1}
		p.AcknowledgementBatches = append(p.AcknowledgementBatches, a)
	}
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// encode makes the frame of a request.
func encode(r kmsg.Request, version int16) []byte {
	r.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("latency")).AppendRequest(nil, r, 7)
}

// answer makes the frame of a flexible answer, without its correlation id.
func answer(r kmsg.Response) []byte {
	b := r.AppendTo(make([]byte, 9))
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// serveAnswers answers every request at once by its key.
func serveAnswers(l net.Listener, answers map[int16][]byte) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for {
				frame, err := tap.ReadFrame(c)
				if err != nil {
					return
				}
				a := bytes.Clone(answers[int16(binary.BigEndian.Uint16(frame[4:]))])
				if len(a) < 8 {
					return
				}
				copy(a[4:8], frame[8:12])
				if _, err := io.Copy(c, bytes.NewReader(a)); err != nil {
					return
				}
			}
		}()
	}
}
