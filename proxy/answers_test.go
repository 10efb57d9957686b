package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

// goldenFrame is one frame of codec/testdata: written ones in vectors.json, captured ones in frames.json.
type goldenFrame struct {
	Name    string `json:"name"`
	Key     int16  `json:"api_key"`
	Version int16  `json:"api_version"`
	Kind    string `json:"kind"`
	Hex     string `json:"hex"`
	Expect  string `json:"expect"`
	frame   []byte
}

// goldenFrames are all frames of codec/testdata. An empty list fails: it would make every test over it pass.
func goldenFrames(t testing.TB) []goldenFrame {
	t.Helper()
	var all []goldenFrame
	for name, atLeast := range map[string]int{"vectors.json": 60, "frames.json": 80} {
		text, err := os.ReadFile(filepath.Join("..", "codec", "testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []goldenFrame }
		if err := json.Unmarshal(text, &file); err != nil || len(file.Vectors) < atLeast {
			t.Fatalf("%s: %v, %d frames, want at least %d", name, err, len(file.Vectors), atLeast)
		}
		all = append(all, file.Vectors...)
	}
	for i := range all {
		var err error
		if all[i].frame, err = hex.DecodeString(all[i].Hex); err != nil {
			t.Fatal(all[i].Name, err)
		}
	}
	return all
}

// unmappable is a server for which no broker's port exists.
func unmappable(t testing.TB) *Server {
	t.Helper()
	s, err := New(Config{Bootstrap: "127.0.0.1:0", Advertise: "proxy.test", BrokerPortsBase: 65536})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

// TestGoldenAnswers takes what brokers really sent through, with nodes that can be mapped and with none.
func TestGoldenAnswers(t *testing.T) {
	open, shut := stub(t, Config{}), unmappable(t)
	seen := map[int16]int{}
	for _, g := range goldenFrames(t) {
		if g.Kind != "response" || g.Expect != "ok" || !strings.HasPrefix(g.Name, "k4") || carriesEndpoints(g.Key, g.Version) == 0 {
			continue
		}
		seen[g.Key]++
		for _, s := range []*Server{open, shut} {
			m := kmsg.ResponseForKey(g.Key)
			m.SetVersion(g.Version)
			if err := m.ReadFrom(g.frame[9:]); err != nil {
				t.Fatal(g.Name, err)
			}
			var all []addressed
			for id := range int32(3) {
				for _, base := range []int32{22000, 22200} { // of the brokers that were asked
					all = append(all, addressed{id + 1, "127.0.0.1", base + id + 1, s == open})
				}
			}
			mapped(s, all, m, g.Version)
			want := reply(m, idOf(g.frame, true))
			got, err := through(s, exchange{key: g.Key, version: g.Version}, slices.Clone(g.frame))
			if err != nil {
				t.Fatal(g.Name, err)
			}
			if g.Key == codec.KeyProduce || g.Key == codec.KeyFetch {
				copy(got[4:], want[4:8])
				got = sized(append(want[:8:8], rewritten(t, got, m)[8:]...))
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s became\n%x, want\n%x", g.Name, got, want)
			}
			for _, a := range all {
				if bytes.Contains(got, binary.BigEndian.AppendUint32(nil, uint32(a.port))) {
					t.Errorf("%s: port %d got through", g.Name, a.port)
				}
			}
		}
	}
	for _, key := range []int16{0, 1, 3, 10, 60, 78, 79} {
		if seen[key] == 0 {
			t.Errorf("no golden answer of key %d", key)
		}
	}
}

// Answers with an error name no node, no host and port -1: they are no addresses, and pass.
func TestErrorAnswers(t *testing.T) {
	s := stub(t, Config{})
	f := kmsg.NewPtrFindCoordinatorResponse()
	f.ErrorCode, f.NodeID, f.Port = 15, -1, -1
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.ErrorCode, c.NodeID, c.Port = 30, -1, -1
	f.Coordinators = append(f.Coordinators, c)
	for version := range int16(7) {
		f.SetVersion(version)
		frame := reply(f, 1)
		if got, err := through(s, exchange{key: f.Key(), version: version}, frame); err != nil || !bytes.Equal(got, frame) {
			t.Errorf("v%d: %v, %x became %x", version, err, frame, got)
		}
	}
	// An error beside an address that cannot be mapped stays that error: "not available" would be retried for ever.
	f.SetVersion(2)
	f.ErrorCode, f.NodeID, f.Host, f.Port = 30, -7, "b"+upstreamHosts, 9092
	got, err := through(s, exchange{key: f.Key(), version: 2}, reply(f, 1))
	f.NodeID, f.Host, f.Port = -1, "", -1
	if want := reply(f, 1); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %x, want %x", err, got, want)
	}
}

// txnAnswer is a TxnShareAcknowledge answer with these endpoints, and one partition for each, led by it.
func txnAnswer(all []addressed) *codec.TxnShareAcknowledgeResponse {
	m := &codec.TxnShareAcknowledgeResponse{ErrorCode: 0}
	m.Tags.Append(99, []byte("unknown"))
	topic := codec.AckResultTopic{TopicID: codec.UUID{7}}
	for i, a := range all {
		p := codec.NewAckResult(int32(i), 6)
		p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = a.id, 5
		p.Tags.Append(98, []byte{1, 2})
		topic.Partitions.Append(p)
		e := codec.NodeEndpoint{NodeID: a.id, Host: []byte(a.host), Port: a.port}
		if i%2 == 0 {
			e.Rack = []byte("rack")
		}
		e.Tags.Append(97, []byte{3})
		m.NodeEndpoints.Append(e)
	}
	m.Responses.Append(topic)
	return m
}

func headed(m interface{ Append([]byte, int16) []byte }) []byte {
	return sized(m.Append([]byte{0, 0, 0, 0, 0, 0, 0, 77, 0}, 0))
}

func TestTxnEndpoints(t *testing.T) {
	s := stub(t, Config{TxnKey: keyDraftTxn, TxnArm: ArmAlways})
	all := addresses(s)
	want := txnAnswer(all)
	var endpoints codec.Array[codec.NodeEndpoint]
	var topics codec.Array[codec.AckResultTopic]
	for e := range want.NodeEndpoints.All() {
		if a := find(all, e.NodeID, string(e.Host), e.Port); a.ours {
			e.Host, e.Port = []byte("proxy.test"), s.node(a.id).port
			endpoints.Append(e)
		}
	}
	for topic := range want.Responses.All() {
		var partitions codec.Array[codec.AckResult]
		for p := range topic.Partitions.All() {
			if !all[p.PartitionIndex].ours {
				p.CurrentLeader = codec.NoLeader()
			}
			partitions.Append(p)
		}
		topic.Partitions = partitions
		topics.Append(topic)
	}
	want.NodeEndpoints, want.Responses = endpoints, topics
	got, err := through(s, exchange{correlationID: 77, key: keyDraftTxn, need: needEndpoints}, headed(txnAnswer(all)))
	if err != nil || !bytes.Equal(got, headed(want)) {
		t.Fatalf("%v\n%x, want\n%x", err, got, headed(want))
	}
	noUpstream(t, got, all)
	plain := headed(txnAnswer(nil))
	if got, err = through(s, exchange{correlationID: 77, key: keyDraftTxn, need: needEndpoints}, plain); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("without endpoints: %v, %x became %x", err, plain, got)
	}
}

// What readers may read in two ways might show a client an address that we did not see: bytes after the body, and a tagged field
// twice, of which some take the first and some the last. Such an answer never passes as it came.
func TestAmbiguousAnswers(t *testing.T) {
	s := stub(t, Config{TxnKey: keyDraftTxn, TxnArm: ArmAlways})
	a := addresses(s)[0]
	value := (&tail{endpoints: []endpoint{{id: a.id, host: []byte(a.host), port: a.port, tags: []byte{0}}}}).appendEndpoints(nil)
	twice := slices.Concat([]byte{2, 0, byte(len(value))}, value, []byte{0, 1, 1})
	for _, key := range []int16{3, 10, 60, 0, 1, 78, 79, keyDraftTxn} {
		x := exchange{correlationID: 77, key: key, version: max(0, codec.MaxVersion(key)), need: needEndpoints}
		plain := headed(new(codec.TxnShareAcknowledgeResponse))
		if m := kmsg.ResponseForKey(key); key != keyDraftTxn {
			m.SetVersion(x.version)
			plain = reply(m, 77)
		}
		ends := [][]byte{append([]byte{0}, a.host...)}
		if key == codec.KeyProduce || key == codec.KeyFetch || key == keyDraftTxn {
			ends = append(ends, twice)
		}
		for _, end := range ends {
			frame := sized(slices.Concat(plain[:len(plain)-1], end))
			got, err := through(s, x, slices.Clone(frame))
			if err != nil && !errors.Is(err, errUnread) {
				t.Errorf("key %d: %v", key, err)
			}
			if err == nil && bytes.Contains(got, []byte(upstreamHosts)) {
				t.Errorf("key %d: an address passed: %q", key, got)
			}
		}
	}
}

// What is removed is counted, and the log says once a minute why.
func TestRemovedIsCounted(t *testing.T) {
	log := new(heard)
	s := stub(t, Config{Log: zerolog.New(log).Level(zerolog.ErrorLevel)})
	m := kmsg.NewPtrMetadataResponse()
	m.SetVersion(9)
	for _, a := range addresses(s) {
		m.Brokers = append(m.Brokers, kmsg.MetadataResponseBroker{NodeID: a.id, Host: a.host, Port: a.port})
	}
	for range 2 {
		if _, err := through(s, exchange{key: codec.KeyMetadata, version: 9}, reply(m, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := testutil.ToFloat64(s.metrics.unmapped.WithLabelValues("Metadata")); n != 12 {
		t.Errorf("%v removed in two answers, want 12", n)
	}
	for words, n := range map[string]int{"left out of answers": 2, "an address of ours": 3} { // nodes 7 and 60000; 8, 9 and 10
		if strings.Count(log.String(), words) != n {
			t.Errorf("not %d times %q in %s", n, words, log)
		}
	}
}
