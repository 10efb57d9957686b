package dlq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// fill writes n records to partition 1 of the source topic, in batches of some.
func (r *rig) fill(n int, codec kgo.CompressionCodec) []*kgo.Record {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	var all []*kgo.Record
	for i := range n {
		all = append(all, &kgo.Record{Topic: "orders", Partition: 1, Key: fmt.Appendf(nil, "key %d", i), Value: bytes.Repeat([]byte("value "), 100),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}}, Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))})
		if i%5 == 0 {
			all[i].Value = nil
		}
	}
	for some := range slices.Chunk(all, 7) {
		if err := cl.ProduceSync(r.t.Context(), some...).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
	return all
}

func TestFetchedAgain(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			source := r.fill(20, codec)
			r.start(map[string]any{"source": r.address(), "timestamp": "original"})
			q := r.request(0, reject(3, 17))
			q.Partitions[0].Topic = "" // nor did the name pass by
			if v := r.decide(q); v.Reason != "dead letters: 15 produced" {
				t.Fatalf("verdict %+v", v)
			}
			letters := r.letters("dlq.orders", 15)
			for i, l := range letters {
				want := source[i+3]
				if !bytes.Equal(l.Key, want.Key) || !bytes.Equal(l.Value, want.Value) || (l.Value == nil) != (want.Value == nil) ||
					header(l, "h") != string(want.Headers[0].Value) || !l.Timestamp.Equal(want.Timestamp) {
					t.Errorf("letter %d: key %q at %v", i, l.Key, l.Timestamp)
				}
				if header(l, "ackproxy.payload") != "refetched" || header(l, "__dlq.errors.topic") != "orders" {
					t.Errorf("letter %d: headers %v", i, l.Headers)
				}
			}
		})
	}
}

func TestUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		source bool
		fault  *kerr.Error
		offset int64
		why    string
	}{
		"no source":          {false, nil, 0, policy.ErrNotKept.Error()},
		"behind the end":     {true, nil, 99, "OFFSET_OUT_OF_RANGE"},
		"not authorised":     {true, kerr.TopicAuthorizationFailed, 0, "TOPIC_AUTHORIZATION_FAILED"},
		"the leader is gone": {true, kerr.NotLeaderForPartition, 0, "NOT_LEADER_FOR_PARTITION"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.fill(3, kgo.NoCompression())
			if c.source {
				r.config["source"] = r.address()
			}
			var fault *kfake.FaultHandle
			if c.fault != nil {
				fault = r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: c.fault, Count: -1})
			}
			r.start(nil)
			if v := r.decide(r.request(0, reject(c.offset, c.offset))); v.Reason != "dead letters: 1 produced" {
				t.Fatalf("verdict %+v", v)
			}
			if fault != nil {
				fault.Remove()
			}
			l := r.letters("dlq.orders", 1)[0]
			if l.Key != nil || l.Value != nil || header(l, "ackproxy.payload") != "unavailable" ||
				!bytes.Contains([]byte(header(l, "ackproxy.payload.reason")), []byte(c.why)) {
				t.Errorf("headers %v", l.Headers)
			}
		})
	}
}

// TestUnavailableFails treats a record that is nowhere as a failure; a spool would not help.
func TestUnavailableFails(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"unavailable": "on_failure"})
	if v := r.decide(r.request(1, reject(0, 0))); len(v.Edits) != 1 || v.Edits[0].Type != policy.Release || len(r.spool()) != 0 {
		t.Errorf("verdict %+v", v)
	}
}

// TestUnfolds has batches that unfold to more than is allowed.
func TestUnfolds(t *testing.T) {
	zeros := make([]byte, 1<<20)
	for name, codec := range map[kgo.CompressionCodecType]kgo.CompressionCodec{kgo.CodecGzip: kgo.GzipCompression(),
		kgo.CodecSnappy: kgo.SnappyCompression(),
		kgo.CodecLz4:    kgo.Lz4Compression(), kgo.CodecZstd: kgo.ZstdCompression()} {
		c, err := kgo.DefaultCompressor(codec)
		if err != nil {
			t.Fatal(err)
		}
		packed, kind := c.Compress(new(bytes.Buffer), zeros)
		if kind != name {
			t.Fatalf("compressed with %v", kind)
		}
		if got, err := (bounded{1 << 20}).Decompress(packed, kind); err != nil || !bytes.Equal(got, zeros) {
			t.Errorf("%v: %d bytes, %v", kind, len(got), err)
		}
		if got, err := (bounded{1<<20 - 1}).Decompress(packed, kind); err == nil {
			t.Errorf("%v: %d bytes were allowed", kind, len(got))
		}
	}
}

// TestJavaSnappy reads Java's framing.
func TestJavaSnappy(t *testing.T) {
	framed := append(slices.Clone(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range []string{"one ", "two"} {
		block := snappy.Encode(nil, []byte(part))
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
	}
	if got, err := (bounded{7}).Decompress(framed, kgo.CodecSnappy); err != nil || string(got) != "one two" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := (bounded{6}).Decompress(framed, kgo.CodecSnappy); !errors.Is(err, errUnfolds) {
		t.Errorf("more than allowed: %v", err)
	}
	if _, err := (bounded{7}).Decompress(framed[:len(framed)-1], kgo.CodecSnappy); err == nil {
		t.Error("cut off, and read")
	}
}

// TestLeaderMoves looks for the leader again, and fetches once more.
func TestLeaderMoves(t *testing.T) {
	r := newRig(t, kfake.NumBrokers(2))
	r.fill(2, kgo.NoCompression())
	r.start(map[string]any{"source": r.address()})
	for offset := range int64(2) {
		if v := r.decide(r.request(0, reject(offset, offset))); v.Reason != "dead letters: 1 produced" {
			t.Fatalf("verdict %+v", v)
		}
		leader := r.cluster.LeaderFor("orders", 1)
		if err := r.cluster.MoveTopicPartition("orders", 1, 1-leader); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range r.letters("dlq.orders", 2) {
		if header(l, "ackproxy.payload") != "refetched" {
			t.Errorf("headers %v", l.Headers)
		}
	}
}
