package proxy

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/proxy/internal/delivered"
)

// seeds adds golden frames of one kind to a fuzz test, and fails when there are none.
func seeds(f *testing.F, kind string, add func(g goldenFrame)) {
	f.Helper()
	n := 0
	for _, g := range goldenFrames(f) {
		if g.Kind == kind {
			add(g)
			n++
		}
	}
	if n < 20 {
		f.Fatalf("%d seeds", n)
	}
}

// tailedKeys are the answers that the scanner walks, with the versions that it knows.
var tailedKeys = []struct{ key, from, versions int16 }{{codec.KeyProduce, 10, 4}, {codec.KeyFetch, 16, 3}, {codec.KeyShareFetch, 0, 3}}

// windowed is a scanner that has no more than n bytes at hand where it can do with so few, like one over a frame that streams.
func windowed(body []byte, n int) *scanner {
	at := 0
	s := &scanner{left: len(body)}
	open := func(k int) {
		s.p, s.at = body[at:min(len(body), at+k)], 0
		s.left = len(body) - at - len(s.p)
	}
	s.fill = func(k int) error { at += s.at; open(max(k, n)); return nil }
	s.pass = func(k int) error { at += s.at + k; open(0); return nil }
	return s
}

// FuzzScan walks anything as an answer: no panic, nothing invented, the same at once and in pieces; and what our codec and kmsg read
// strictly is read to the same result.
func FuzzScan(f *testing.F) {
	seeds(f, "response", func(g goldenFrame) {
		for i, k := range tailedKeys {
			if k.key == g.Key {
				f.Add(uint8(i), uint8(g.Version-k.from), uint8(5), g.frame[9:])
			}
		}
	})
	f.Fuzz(func(t *testing.T, which, version, window uint8, body []byte) {
		k := tailedKeys[int(which)%len(tailedKeys)]
		v := k.from + int16(version)%k.versions
		a, tail, err := walked(k.key, v, body)
		pieces := &answer{collect: true, delivers: &delivered.Answer{}}
		inPieces := pieces.walk(windowed(body, int(window)), k.key, v)
		at := &scanner{p: body}
		atOnce := (&answer{}).walk(at, k.key, v)
		if (inPieces == nil) != (atOnce == nil) || inPieces != nil && !errors.Is(inPieces, errBadFrame) {
			t.Fatalf("in pieces %v, at once %v", inPieces, atOnce)
		}
		if err == nil && (!reflect.DeepEqual(pieces.reply, a.reply) || len(a.reply.Partitions) > len(body) || len(a.leaders) > len(body)) {
			t.Fatalf("in pieces %+v, at once %+v", pieces.reply, a.reply)
		}
		if err == nil {
			for i := range a.delivers.Partitions { // of what streams there are no records
				a.delivers.Partitions[i].Records = nil
			}
			if !reflect.DeepEqual(pieces.delivers, a.delivers) || a.ranges > len(body)/18 {
				t.Fatalf("in pieces %+v, at once %+v", pieces.delivers, a.delivers)
			}
		}
		if k.key == codec.KeyShareFetch {
			var m codec.ShareFetchResponse
			if o, _ := m.Decode(body, 0, v); o == codec.Exact {
				compareShareFetch(t, v, body)
			}
			return
		}
		m := kmsg.ResponseForKey(k.key)
		if readStrict(m, v, body) != nil {
			return
		}
		if err != nil {
			t.Fatalf("kmsg reads it, and we %v", err)
		}
		var endpoints []endpoint
		switch m := m.(type) {
		case *kmsg.ProduceResponse:
			for _, b := range m.Brokers {
				endpoints = append(endpoints, endpointOf(b.NodeID, b.Host, b.Port, b.Rack))
			}
		case *kmsg.FetchResponse:
			for _, b := range m.Brokers {
				endpoints = append(endpoints, endpointOf(b.NodeID, b.Host, b.Port, b.Rack))
			}
		}
		if !sameEndpoints(tail.endpoints, endpoints) {
			t.Fatalf("endpoints %v, want %v", tail.endpoints, endpoints)
		}
	})
}

// FuzzTail reads anything as the end of an answer, and writes it again with another host at the size that it had.
func FuzzTail(f *testing.F) {
	seeds(f, "response", func(g goldenFrame) {
		for _, k := range tailedKeys {
			s := &scanner{p: g.frame[9:]}
			if k.key == g.Key && (&answer{}).walk(s, g.Key, g.Version) == nil {
				f.Add(g.Key == codec.KeyShareFetch, "proxy.example", s.p[s.at:])
			}
		}
	})
	f.Fuzz(func(t *testing.T, share bool, host string, p []byte) {
		key := codec.KeyFetch
		if share {
			key = codec.KeyShareFetch
		}
		is, err := readTail(key, p)
		if err != nil || len(host) > 32767 {
			return
		}
		again, err := readTail(key, is.append(nil, 0))
		if err != nil || !sameEndpoints(again.endpoints, is.endpoints) || len(again.others) != len(is.others) {
			t.Fatalf("%v: %+v, want %+v", err, again, is)
		}
		if len(is.endpoints) == 0 {
			return
		}
		for i := range is.endpoints {
			is.endpoints[i].host = []byte(host)
		}
		want, others := slices.Clone(is.endpoints), is.others
		fitted, ok := is.fit(len(p))
		if !ok && slices.ContainsFunc(others, func(o tagged) bool { return o.tag >= 1<<20 }) {
			return // no number is left for a filler of any size
		}
		if again, err = readTail(key, fitted); err != nil || !ok || len(fitted) != len(p) {
			t.Fatalf("%v, %v, %d bytes of %d", err, ok, len(fitted), len(p))
		}
		if len(again.endpoints) > 0 && !sameEndpoints(again.endpoints, want) || len(again.others) < len(others) || len(again.others) > len(others)+1 {
			t.Fatalf("%+v", again)
		}
	})
}

// hostsOf calls each with every endpoint of a kmsg answer.
func hostsOf(v reflect.Value, each func(host, port reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			hostsOf(v.Elem(), each)
		}
	case reflect.Slice:
		for i := range v.Len() {
			hostsOf(v.Index(i), each)
		}
	case reflect.Struct:
		if h := v.FieldByName("Host"); h.IsValid() {
			each(h, v.FieldByName("Port"))
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				hostsOf(v.Field(i), each)
			}
		}
	}
}

// FuzzResponses passes anything as an answer that may carry addresses: it comes out with none but ours, or the connection ends.
func FuzzResponses(f *testing.F) {
	keys := []int16{codec.KeyMetadata, codec.KeyFindCoordinator, codec.KeyDescribeCluster, codec.KeyProduce, codec.KeyFetch, codec.KeyShareFetch, codec.KeyShareAcknowledge,
		codec.KeyApiVersions, codec.KeySASLHandshake, codec.KeySASLAuthenticate, codec.KeyAddRaftVoter, keyDraftTxn}
	seeds(f, "response", func(g goldenFrame) {
		if i := slices.Index(keys, g.Key); i >= 0 {
			f.Add(uint8(i), uint8(g.Version), g.frame)
		}
	})
	s := unmappable(f)
	for id := range int32(3) {
		if _, err := s.listen(id+1, "broker", "127.0.0.1:0"); err != nil {
			f.Fatal(err)
		}
	}
	ports := map[int64]bool{-1: true}
	for id := range int32(4) {
		if l := s.node(id); l != nil {
			ports[int64(l.port)] = true
		}
	}
	f.Fuzz(func(t *testing.T, which, version uint8, frame []byte) {
		key := keys[int(which)%len(keys)]
		v := int16(version) % (max(0, codec.MaxVersion(key)) + 1)
		if len(frame) < 8 {
			return
		}
		x := exchange{key: key, version: v, need: carriesEndpoints(key, v), txn: version > 128}
		switch {
		case key == codec.KeyApiVersions:
			x.need = needVersions
		case isSASL(key):
			x.need, x.sasl = needSASL, &saslStep{mechanism: "PLAIN", handshake: key == codec.KeySASLHandshake}
		case x.need == 0 && key != keyDraftTxn && key != codec.KeyAddRaftVoter:
			return // passes unread
		}
		out, err := through(s, x, slices.Clone(frame))
		if err != nil {
			if !errors.Is(err, errUnread) {
				t.Fatal(err)
			}
			return
		}
		checkAddresses(t, key, v, frame, out, ports)
	})
}

func checkAddresses(t *testing.T, key, version int16, frame, out []byte, ports map[int64]bool) {
	m := kmsg.ResponseForKey(key)
	if m == nil || carriesEndpoints(key, version) == 0 {
		return
	}
	m.SetVersion(version)
	body, err := responseBody(frame, exchange{key: key, version: version})
	if err != nil || m.ReadFrom(frame[body:]) != nil {
		return
	}
	var hosts []string
	hostsOf(reflect.ValueOf(m), func(h, _ reflect.Value) {
		hosts = append(hosts, h.String())
		h.SetString("")
	})
	rest := m.AppendTo(slices.Clone(frame[:body]))
	for _, h := range hosts {
		text := !strings.ContainsFunc(h, func(r rune) bool { return r < '!' || r > '~' }) // what is binary may be there by chance
		if text && len(h) > 2 && !strings.Contains("proxy.test", h) && !bytes.Contains(rest, []byte(h)) && bytes.Contains(out, []byte(h)) {
			t.Fatalf("host %q got through in %q", h, out)
		}
	}
	m = kmsg.ResponseForKey(key)
	m.SetVersion(version)
	if m.ReadFrom(out[body:]) != nil {
		t.Fatalf("kmsg cannot read %x, made of %x", out, frame)
	}
	hostsOf(reflect.ValueOf(m), func(h, p reflect.Value) {
		if h.String() != "" && (h.String() != "proxy.test" || !ports[p.Int()]) {
			t.Fatalf("%s:%d got through", h, p.Int())
		}
	})
}
