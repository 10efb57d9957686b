package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

// apiVersions is an answer that offers keys 0 to 100 up to three versions more than there are, and share.version up to this level.
func apiVersions(version, shareVersion int16) *kmsg.ApiVersionsResponse {
	m := kmsg.NewPtrApiVersionsResponse()
	m.SetVersion(version)
	m.ThrottleMillis = 12
	for key := range int16(101) {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MaxVersion = key, max(codec.MaxVersion(key), 0)+3
		k.UnknownTags.Set(7, []byte("of a key"))
		m.ApiKeys = append(m.ApiKeys, k)
	}
	m.SupportedFeatures = []kmsg.ApiVersionsResponseSupportedFeature{{Name: "metadata.version", MinVersion: 1, MaxVersion: 30}}
	if version >= 4 { // below, brokers leave out what starts at 0
		m.SupportedFeatures = append(m.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{Name: "share.version", MaxVersion: shareVersion})
	}
	m.FinalizedFeaturesEpoch = 99
	m.FinalizedFeatures = []kmsg.ApiVersionsResponseFinalizedFeature{{Name: "share.version", MinVersionLevel: shareVersion, MaxVersionLevel: shareVersion}}
	m.ZkMigrationReady = true
	m.UnknownTags.Set(77, []byte("of the answer"))
	return m
}

// asOffered runs an ApiVersions answer through a connection to its broker.
func asOffered(t *testing.T, c *conn, version int16, frame []byte) []byte {
	t.Helper()
	r := &responses{c: c, x: exchange{key: codec.KeyApiVersions, version: version, need: needVersions}}
	instead, err := r.whole(slices.Clone(frame))
	if err != nil {
		t.Fatal(err)
	}
	if instead == nil {
		return frame
	}
	return instead
}

var mustRead = map[int16]bool{0: true, 1: true, 3: true, 10: true, 60: true, 78: true, 79: true}

// TestClamp changes what has to be changed in ApiVersions answers of every version, and nothing else.
func TestClamp(t *testing.T) {
	for _, c := range []struct {
		cfg    Config
		armed  bool
		hidden []int16
		clamp  map[int16]int16 // beside the keys that are always read
	}{
		{cfg: Config{}, hidden: []int16{95}},
		{cfg: Config{TxnKey: 80}, armed: true, hidden: []int16{95}, clamp: map[int16]int16{80: 1}},
		{cfg: Config{TxnKey: 95}, hidden: []int16{95}},
		{cfg: Config{TxnKey: 95}, armed: true, clamp: map[int16]int16{95: 0}},
		{cfg: Config{TxnKey: 93}, hidden: []int16{93, 95}},
		{cfg: Config{TxnKey: 93, TxnArm: ArmAlways}, armed: true, hidden: []int16{95}, clamp: map[int16]int16{93: 0}},
		{cfg: Config{TxnKey: 97, HideUnknownAPIs: true}, hidden: []int16{95, 96, 97, 98, 99, 100}},
		{cfg: Config{TxnKey: 97, HideUnknownAPIs: true}, armed: true, hidden: []int16{95, 96, 98, 99, 100}, clamp: map[int16]int16{97: 0}},
	} {
		s := stub(t, c.cfg)
		for version := range int16(6) {
			conn := stubConn(s)
			conn.broker.armed.Store(c.armed)
			level := int16(2)
			if c.armed {
				level = 3
			}
			m := apiVersions(version, level)
			frame := reply(m, 5)
			m.ApiKeys = slices.DeleteFunc(m.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return slices.Contains(c.hidden, k.ApiKey) })
			for i := range m.ApiKeys {
				if highest, ok := c.clamp[m.ApiKeys[i].ApiKey]; ok {
					m.ApiKeys[i].MaxVersion = highest
				} else if mustRead[m.ApiKeys[i].ApiKey] {
					m.ApiKeys[i].MaxVersion -= 3
				}
			}
			if got, want := asOffered(t, conn, version, frame), reply(m, 5); !bytes.Equal(got, want) {
				t.Errorf("%+v armed %v v%d: got\n%x, want\n%x", c.cfg.TxnKey, c.armed, version, got, want)
			}
		}
	}
}

// A key that a broker offers only in versions that are not read is not offered.
func TestClampAway(t *testing.T) {
	m := kmsg.NewPtrApiVersionsResponse()
	m.SetVersion(4)
	for _, key := range []int16{2, 3, 78} {
		m.ApiKeys = append(m.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: key, MinVersion: 14, MaxVersion: 15})
	}
	frame := reply(m, 1)
	m.ApiKeys = m.ApiKeys[:1]
	if got := asOffered(t, stubConn(stub(t, Config{})), 4, frame); !bytes.Equal(got, reply(m, 1)) {
		t.Errorf("%x, want %x", got, reply(m, 1))
	}
}

// Answers of today's brokers, errors in the first version's layout, errors of the newest, and what cannot be read pass as they came.
func TestVersionsPass(t *testing.T) {
	s := stub(t, Config{})
	frames := map[string][]byte{}
	version := map[string]int16{}
	for _, g := range goldenFrames(t) {
		if g.Key == codec.KeyApiVersions && g.Kind == "response" {
			frames[g.Name], version[g.Name] = g.frame, g.Version
		}
	}
	if len(frames) < 9 {
		t.Fatalf("%d golden answers", len(frames))
	}
	for name, frame := range frames {
		if got := asOffered(t, stubConn(s), version[name], frame); !bytes.Equal(got, frame) {
			t.Errorf("%s: %x became %x", name, frame, got)
		}
	}
	if n := testutil.ToFloat64(s.metrics.decode.WithLabelValues("ApiVersions", "response")); n != 0 {
		t.Errorf("%v of them could not be read", n)
	}
	clear(frames)
	// What cannot be read is counted.
	future := apiVersions(5, 2)
	frames["v6 with another layout"] = sized(append([]byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 3}, []byte("nobody knows")...))
	frames["v5 with a byte left"] = sized(append(reply(future, 1), 0))
	frames["empty"], frames["one byte"] = frameOf([]byte{0, 0, 0, 1}), frameOf([]byte{0, 0, 0, 1, 0})
	frames["cut"] = sized(reply(future, 1)[:100])
	for name, frame := range frames {
		if got := asOffered(t, stubConn(s), 6, frame); !bytes.Equal(got, frame) {
			t.Errorf("%s: %x became %x", name, frame, got)
		}
	}
}

// TestArming follows a broker from answer to answer.
func TestArming(t *testing.T) {
	without := func(m *kmsg.ApiVersionsResponse, key int16) *kmsg.ApiVersionsResponse {
		m.ApiKeys = slices.DeleteFunc(m.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key })
		return m
	}
	failed := apiVersions(5, 0)
	failed.ErrorCode, failed.ApiKeys = 129, nil
	finalizedOnly := apiVersions(4, 3)
	finalizedOnly.SupportedFeatures = nil
	supportedOnly := apiVersions(4, 3)
	supportedOnly.FinalizedFeatures = nil
	steps := []struct {
		what    string
		version int16
		m       *kmsg.ApiVersionsResponse
		armed   bool
	}{
		{"share.version 2", 4, apiVersions(4, 2), false},
		{"share.version 3", 4, apiVersions(4, 3), true},
		{"v2, which has no features", 2, apiVersions(2, 0), true},
		{"an error", 5, failed, true},
		{"a later answer with 2", 5, apiVersions(5, 2), false},
		{"v3, finalized 3", 3, apiVersions(3, 3), true},
		{"v3, finalized 2", 3, apiVersions(3, 2), false},
		{"supported 5", 5, apiVersions(5, 5), true},
		{"the key is not listed", 5, without(apiVersions(5, 5), 80), false},
		{"supported 3, not finalized", 4, supportedOnly, true},
		{"v4 with finalized only", 4, finalizedOnly, false},
	}
	for arm, want := range map[Arm]func(bool) bool{ArmAuto: func(b bool) bool { return b }, ArmAlways: func(bool) bool { return true }, ArmNever: func(bool) bool { return false }} {
		s := stub(t, Config{TxnArm: arm})
		c := stubConn(s)
		for _, step := range steps {
			asOffered(t, c, step.version, reply(step.m, 1))
			if got := s.brokerAt(c.info.Upstream).armed.Load(); got != want(step.armed) {
				t.Errorf("%s, after %s: armed %v", arm, step.what, got)
			}
		}
		if arm == ArmAuto && s.brokerAt("another:9092").armed.Load() {
			t.Error("another broker is armed, too")
		}
	}
}

// A request in a version that was not offered ends the connection, as it does with a broker; what is offered passes.
func TestVersionsNotOffered(t *testing.T) {
	s := start(t, Config{Upstream: []string{script(t, answering(echo))}, TxnKey: 95, TxnArm: ArmAlways}, nil)
	ended := 0.0
	for key, highest := range map[int16]int16{0: 13, 1: 18, 3: 13, 10: 6, 60: 2, 78: 2, 79: 2, 95: 0} {
		for _, version := range []int16{-1, highest + 1, 32767} {
			c := dial(t, s)
			c.Write(bare(key, version))
			if p, err := closedBy(c); err != nil || len(p) != 0 {
				t.Errorf("key %d v%d: %v, %x", key, version, err, p)
			}
			ended++
		}
		if err := s.offered(key, highest, s.brokerAt("b")); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "every one counted", func() bool { return testutil.ToFloat64(s.metrics.ended.WithLabelValues("version")) == ended })
	for _, key := range []int16{2, 12, 18, 10001} {
		c := dial(t, s)
		c.Write(bare(key, 99))
		if f, err := readFrame(c); err != nil || idOf(f, true) != 1 {
			t.Errorf("key %d v99: %v", key, err)
		}
	}
	if err := s.offered(3, 99, s.brokerAt("b")); !errors.Is(err, errVersion) {
		t.Error(fmt.Sprint("an error without its reason: ", err))
	}
}
