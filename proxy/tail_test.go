package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

func oneEndpoint(host string) []endpoint {
	return []endpoint{{id: 5, host: []byte(host), port: 9092, rack: []byte("rack"), tags: []byte{1, 99, 1, 7}}}
}

// manyTags are n unknown fields, of which the last has this number.
func manyTags(n, last int) []tagged {
	var all []tagged
	for i := range n - 1 {
		all = append(all, tagged{i + 1, []byte{byte(i)}})
	}
	return append(all, tagged{last, []byte("last")})
}

// TestFit replaces an endpoint with a host of any length by one of any other, beside all kinds of other fields, in the bytes that there
// are: the result has exactly their size, reads well, keeps the other fields, and holds the new endpoint or none.
func TestFit(t *testing.T) {
	rest := map[string][]tagged{"": nil, "small": manyTags(1, 3), "filler's": manyTags(1, fillerTag), "two bytes": manyTags(2, 127), "large": manyTags(3, 1<<20),
		"one below two bytes of count": manyTags(126, 126), "at two bytes of count": manyTags(127, 127), "above": manyTags(128, 128)}
	for name, others := range rest {
		for _, key := range []int16{codec.KeyFetch, codec.KeyShareFetch} {
			kept, dropped := 0, 0
			for old := range 401 {
				for _, host := range []string{"", "h", strings.Repeat("h", max(0, old-1)), strings.Repeat("h", old), strings.Repeat("h", old+1), "proxy.example", "none"} {
					was := &tail{inTag: key == codec.KeyFetch, endpoints: oneEndpoint(strings.Repeat("o", old)), others: others}
					is := &tail{inTag: was.inTag, endpoints: oneEndpoint(host), others: others}
					if host == "none" {
						is.endpoints = nil
					}
					want := slices.Clone(is.endpoints)
					size := len(was.append(nil, 0))
					p, ok := is.fit(size)
					if !ok || len(p) != size {
						t.Fatalf("%q %s: a host of %d bytes for one of %d: %v, %d bytes of %d", name, codec.Name(key), len(host), old, ok, len(p), size)
					}
					checkFitted(t, key, p, others, want, &kept, &dropped)
				}
			}
			if kept < 1000 || dropped < 100 {
				t.Errorf("%q: new endpoints kept %d times, dropped %d times", name, kept, dropped)
			}
		}
	}
}

func checkFitted(t *testing.T, key int16, p []byte, others []tagged, want []endpoint, kept, dropped *int) {
	t.Helper()
	got, err := readTail(key, p)
	if err != nil {
		t.Fatalf("%v in %x", err, p)
	}
	switch {
	case len(got.endpoints) == 0 && len(want) > 0:
		*dropped++
	case !reflect.DeepEqual(got.endpoints, want) && len(want)+len(got.endpoints) > 0:
		t.Fatalf("endpoints %v, want %v", got.endpoints, want)
	default:
		*kept++
	}
	n := len(others)
	if len(got.others) < n || !slices.EqualFunc(got.others[:n], others, func(a, b tagged) bool { return a.tag == b.tag && bytes.Equal(a.value, b.value) }) {
		t.Fatalf("other fields %v, want %v", got.others, others)
	}
	for _, filler := range got.others[n:] {
		if len(got.others) > n+1 || filler.tag < fillerTag || n > 0 && filler.tag <= others[n-1].tag || len(bytes.Trim(filler.value, "\x00")) > 0 {
			t.Fatalf("filler %d %x after %d other fields", filler.tag, filler.value, n)
		}
	}
}

// Every gap but one byte takes a filler, so that nothing has to be left out.
func TestFitKeepsEndpoints(t *testing.T) {
	for gap := range 401 {
		for _, others := range [][]tagged{nil, manyTags(1, 3), manyTags(1, 126), manyTags(1, 1<<20)} {
			is := &tail{inTag: true, endpoints: oneEndpoint("h"), others: others}
			p, ok := is.fit(len(is.append(nil, 0)) + gap)
			smallest := 2
			if others != nil && others[0].tag >= 126 {
				smallest = 1 + len(codecUvarint(others[0].tag+1))
			}
			got, err := readTail(codec.KeyProduce, p)
			if keeps := gap == 0 || gap >= smallest; keeps && (!ok || err != nil || len(got.endpoints) != 1) {
				t.Errorf("gap %d beside %v: %v %v, %x", gap, others, ok, err, p)
			}
		}
	}
}

func codecUvarint(n int) []byte { return (&tail{others: []tagged{{n, nil}}}).append(nil, 0)[2:] }

// What is written at equal size is read by kmsg as the same message, with the new endpoints and one more unknown field.
func TestFittedReadsWithKmsg(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		m := kmsg.NewPtrFetchResponse()
		m.SetVersion(18)
		e := kmsg.NewFetchResponseBroker()
		e.NodeID, e.Host, e.Port = 5, strings.Repeat("o", rnd.IntN(400)), 9092
		m.Brokers = append(m.Brokers, e)
		if rnd.IntN(2) == 0 {
			m.UnknownTags.Set(100+rnd.Uint32N(300), []byte("unknown"))
		}
		body := m.AppendTo(nil)
		at := 4 + 2 + 4 + 1
		is, err := readTail(codec.KeyFetch, body[at:])
		if err != nil || len(is.endpoints) != 1 {
			t.Fatal(err, is)
		}
		is.endpoints[0].host, is.endpoints[0].port = []byte(strings.Repeat("n", rnd.IntN(400))), 19100
		p, ok := is.fit(len(body) - at)
		again := kmsg.NewPtrFetchResponse()
		again.SetVersion(18)
		if err := again.ReadFrom(append(body[:at:at], p...)); !ok || err != nil || len(again.Brokers) > 1 || len(again.Brokers) == 1 && again.Brokers[0].Port != 19100 {
			t.Fatal(ok, err, again.Brokers)
		}
		left := map[uint32]string{}
		again.UnknownTags.Each(func(tag uint32, v []byte) { left[tag] = string(v) })
		m.UnknownTags.Each(func(tag uint32, v []byte) {
			if left[tag] != string(v) {
				t.Fatalf("field %d: %q, want %q", tag, left[tag], v)
			}
			delete(left, tag)
		})
		if len(left) > 1 {
			t.Fatal(fmt.Sprint("more than a filler: ", left))
		}
	}
}

// Bytes that are not understood might hold an address.
func TestReadTailIsStrict(t *testing.T) {
	good := (&tail{inTag: true, endpoints: oneEndpoint("host"), others: manyTags(2, 9)}).append(nil, 0)
	if _, err := readTail(codec.KeyFetch, good); err != nil {
		t.Fatal(err)
	}
	long, short := slices.Clone(good), slices.Clone(good)
	long[2]++
	short[2]--
	for name, p := range map[string][]byte{"a byte left": append(slices.Clone(good), 0), "tag longer than its endpoints": long, "tag shorter than its endpoints": short} {
		if _, err := readTail(codec.KeyFetch, p); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	for n := range good {
		if _, err := readTail(codec.KeyFetch, good[:n]); err == nil {
			t.Errorf("the first %d bytes of %d were read", n, len(good))
		}
	}
}
