package codec

import (
	"bytes"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bodies seeds a fuzz test with the body of every golden frame, of whatever API it is.
func bodies(f *testing.F) {
	for _, g := range goldenFrames(f) {
		i := Inspect(g.frame, g.query(), nil)
		f.Add(uint8(g.Version), g.frame[i.Body:])
	}
}

// kmsgBody is what kmsg's requests and responses have in common.
type kmsgBody interface {
	SetVersion(int16)
	ReadFrom([]byte) error
	AppendTo([]byte) []byte
}

func FuzzShareFetchRequest(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		checkBody[ShareFetchRequest](t, body, int16(version%3), kmsg.NewPtrShareFetchRequest(), (*counter).shareFetchRequest)
	})
}

func FuzzShareFetchResponse(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		checkBody[ShareFetchResponse](t, body, int16(version%3), kmsg.NewPtrShareFetchResponse(), (*counter).shareFetchResponse)
	})
}

func FuzzShareAcknowledgeRequest(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		checkBody[ShareAcknowledgeRequest](t, body, int16(version%3), kmsg.NewPtrShareAcknowledgeRequest(), (*counter).shareAcknowledgeRequest)
	})
}

func FuzzShareAcknowledgeResponse(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		checkBody[ShareAcknowledgeResponse](t, body, int16(version%3), kmsg.NewPtrShareAcknowledgeResponse(), (*counter).shareAcknowledgeResponse)
	})
}

func FuzzAddRaftVoterRequest(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		checkBody[AddRaftVoterRequest](t, body, int16(version%2), kmsg.NewPtrAddRaftVoterRequest(), (*counter).addRaftVoterRequest)
	})
}

func FuzzAddRaftVoterResponse(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, version uint8, body []byte) {
		checkBody[AddRaftVoterResponse](t, body, int16(version%2), kmsg.NewPtrAddRaftVoterResponse(), (*counter).addRaftVoterResponse)
	})
}

func FuzzTxnShareAcknowledgeRequest(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, _ uint8, body []byte) {
		checkBody[TxnShareAcknowledgeRequest](t, body, 0, nil, (*counter).txnShareAcknowledgeRequest)
	})
}

func FuzzTxnShareAcknowledgeResponse(f *testing.F) {
	bodies(f)
	f.Fuzz(func(t *testing.T, _ uint8, body []byte) {
		checkBody[TxnShareAcknowledgeResponse](t, body, 0, nil, (*counter).txnShareAcknowledgeResponse)
	})
}

type coder[M message] interface {
	*M
	Decode(body []byte, at int, version int16) (Outcome, *Problem)
	Append(dst []byte, version int16) []byte
}

// checkBody is what holds for every run of bytes read as any message.
func checkBody[M message, P coder[M]](t *testing.T, body []byte, version int16, other kmsgBody, count func(*counter, *M)) {
	const at = 100
	var m M
	o, p := P(&m).Decode(body, at, version)
	tr := newTreeTracer(t)
	tr.next = at
	var m2 M
	o2, p2, n := decodeCarefully(&m2, body, at, version, tr)
	if o != o2 || !reflect.DeepEqual(p, p2) {
		t.Fatalf("%v %v, but carefully %v %v", o, p, o2, p2)
	}
	if (o == Exact) != (p == nil) || p != nil && (p.At < at || p.At > at+len(body) || p.Reason == "") {
		t.Fatalf("%v with problem %v", o, p)
	}
	c := counter{t: t, left: len(body)}
	count(&c, &m)
	if o == Anomalous {
		if c.left != len(body) || !reflect.ValueOf(m).IsZero() {
			t.Fatalf("something is left of an anomalous body: %+v", m)
		}
		return
	}
	tr.done(at + n)
	again := P(&m).Append(nil, version)
	checkKmsg(t, o, body, again, version, other)
	if o == Exact {
		if !bytes.Equal(again, body) {
			t.Fatalf("exact, but\n   %x\n-> %x", body, again)
		}
		checkAllocs[M, P](t, body, version, count)
		return
	}
	if bytes.Equal(again, body) {
		t.Fatalf("tolerated for %v, but exact", p)
	}
	tr2 := newTreeTracer(t)
	var m3 M
	if o, p, _ := decodeCarefully(&m3, again, 0, version, tr2); o != Exact {
		t.Fatalf("%x\n-> %x is %v: %v", body, again, o, p)
	}
	wantEqual(t, "fields of the canonical form", withoutDefaults(tr2.section("fields")), withoutDefaults(tr.section("fields")))
}

// checkKmsg compares with kmsg. It takes trailing bytes and unordered tags as brokers do, and writes tags in order, the last of each.
func checkKmsg(t *testing.T, o Outcome, body, canonical []byte, version int16, other kmsgBody) {
	if other == nil {
		return
	}
	other.SetVersion(version)
	if o == Tolerated && beyondInt32(body) {
		return
	}
	if err := other.ReadFrom(body); err != nil {
		t.Fatalf("%v, but kmsg: %v", o, err)
	}
	if theirs := other.AppendTo(nil); !bytes.Equal(theirs, canonical) {
		t.Fatalf("%v, but\nours %x\nkmsg %x", o, canonical, theirs)
	}
}

// beyondInt32 says whether a body may have a uvarint in it that is no int32. Brokers drop what is over 32 bits, and read what is left with its sign;
// kmsg does not.
func beyondInt32(body []byte) bool {
	ahead := 0 // bytes that say that there is one more
	for _, b := range body {
		switch {
		case b >= 0x80:
			ahead++
			continue
		case ahead >= 4 && b >= 0x08:
			return true
		}
		ahead = 0
	}
	return false
}

// checkAllocs looks at one input in eight: counting stops the world.
func checkAllocs[M message, P coder[M]](t *testing.T, body []byte, version int16, count func(*counter, *M)) {
	if crc32.ChecksumIEEE(body)%8 != 0 {
		return
	}
	c := counter{t: t}
	var m M // escapes here, since it is decoded through a type parameter
	allocs := testing.AllocsPerRun(8, func() {
		if o, _ := P(&m).Decode(body, 0, version); o != Exact {
			t.Error(o)
		}
		c.left = len(body)
		count(&c, &m)
	})
	if allocs > 0 {
		t.Errorf("%v allocations to decode %d bytes and to look at every element", allocs, len(body))
	}
}

// withoutDefaults drops the tagged fields of TxnShareAcknowledge responses that say nothing, as writers do.
func withoutDefaults(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, e := range v {
			if e = withoutDefaults(e); e != nil {
				out[name] = e
			}
		}
		if leader, ok := out["LeaderId"]; ok && len(out) == 2 && leader == num(-1) && out["LeaderEpoch"] == num(-1) {
			return nil
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, withoutDefaults(e))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	}
	return v
}

func FuzzRequestHeader(f *testing.F) {
	for _, g := range goldenFrames(f) {
		f.Add(g.frame, int16(0))
		f.Add(g.frame, g.Key)
	}
	f.Fuzz(func(t *testing.T, frame []byte, txnKey int16) {
		h, body, o, p := DecodeRequestHeader(frame, txnKey)
		if (p == nil) != (o == Exact || o == Opaque) {
			t.Fatalf("%v with problem %v", o, p)
		}
		checkInspection(t, frame, txnKey, o)
		if o == Anomalous {
			return
		}
		again := h.Append(nil)
		if exact := bytes.Equal(again, frame[4:body]); exact != (o != Tolerated) {
			t.Fatalf("%v, but\n   %x\n-> %x", o, frame[4:body], again)
		}
		whole := append(make([]byte, 4), again...)
		SetSize(whole)
		h2, _, o2, p2 := DecodeRequestHeader(whole, txnKey)
		if o2 != Exact && o2 != Opaque {
			t.Fatalf("%x\n-> %x is %v: %v", frame, whole, o2, p2)
		}
		if h2.APIKey != h.APIKey || h2.APIVersion != h.APIVersion || h2.CorrelationID != h.CorrelationID ||
			h2.Version != h.Version || !bytes.Equal(h2.ClientID, h.ClientID) || (h2.ClientID == nil) != (h.ClientID == nil) {
			t.Fatalf("%+v\n-> %+v", h, h2)
		}
	})
}

// checkInspection reads the frame both ways.
func checkInspection(t *testing.T, frame []byte, txnKey int16, header Outcome) {
	for _, kind := range []Kind{Request, Response} {
		tr := newTreeTracer(t)
		i := Inspect(frame, Query{Kind: kind, APIKey: txnKey, TxnKey: txnKey}, tr)
		if len(tr.stack) != 1 {
			t.Fatal("not everything that was opened was closed")
		}
		if (i.Problem == nil) != (i.Outcome == Exact || i.Outcome == Opaque) {
			t.Fatalf("%v with problem %v", i.Outcome, i.Problem)
		}
		if kind == Request && header != Opaque && i.Outcome < header {
			t.Fatalf("%v, but its header is %v", i.Outcome, header)
		}
		if i.Outcome == Exact {
			tr.done(len(frame))
		}
	}
}
