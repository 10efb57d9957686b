package codec

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill gives every field of a kmsg message a random value, now and then an extreme one.
func fill(rng *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[kmsg.Tags]() {
		tags := v.Addr().Interface().(*kmsg.Tags)
		for range max(0, rng.IntN(8)-5) {
			// From 1000 on: no tag that a later version may define, and lengths of two bytes.
			tags.Set(1000+rng.Uint32N(1<<31), randomBytes(rng))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				fill(rng, v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), length(rng, v.Type().Elem().Size()), 300))
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Pointer:
		if rng.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem())
		}
	case reflect.String:
		v.SetString(string(randomBytes(rng)))
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(rng.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(randomInt(rng) >> (64 - v.Type().Bits()))
	default:
		panic(v.Kind())
	}
}

// length is mostly short; of bytes it is now and then more than one byte of length can say.
func length(rng *rand.Rand, size uintptr) int {
	if size == 1 && rng.IntN(8) == 0 {
		return 100 + rng.IntN(200)
	}
	return rng.IntN(4)
}

func randomBytes(rng *rand.Rand) []byte {
	b := make([]byte, length(rng, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func randomInt(rng *rand.Rand) int64 {
	switch rng.IntN(6) {
	case 0:
		return -1 << 63
	case 1:
		return 1<<63 - 1
	case 2:
		return -1
	}
	return int64(rng.Uint64())
}

// Random messages of kmsg's making are exact, the same when written again, and the same when rebuilt element by element; what was
// rebuilt reads as the same message with kmsg.
func TestAgainstKmsg(t *testing.T) {
	t.Run("ShareFetchRequest", func(t *testing.T) {
		differ[ShareFetchRequest](t, 2, func() kmsgBody { return kmsg.NewPtrShareFetchRequest() }, rebuildShareFetchRequest)
	})
	t.Run("ShareFetchResponse", func(t *testing.T) {
		differ[ShareFetchResponse](t, 2, func() kmsgBody { return kmsg.NewPtrShareFetchResponse() }, rebuildShareFetchResponse)
	})
	t.Run("ShareAcknowledgeRequest", func(t *testing.T) {
		differ[ShareAcknowledgeRequest](t, 2, func() kmsgBody { return kmsg.NewPtrShareAcknowledgeRequest() },
			func(m *ShareAcknowledgeRequest) { m.Topics = rebuildAckTopics(m.Topics) })
	})
	t.Run("ShareAcknowledgeResponse", func(t *testing.T) {
		differ[ShareAcknowledgeResponse](t, 2, func() kmsgBody { return kmsg.NewPtrShareAcknowledgeResponse() }, rebuildShareAcknowledgeResponse)
	})
	t.Run("AddRaftVoterRequest", func(t *testing.T) {
		differ[AddRaftVoterRequest](t, 1, func() kmsgBody { return kmsg.NewPtrAddRaftVoterRequest() },
			func(m *AddRaftVoterRequest) { m.Listeners = rebuild(m.Listeners, nil) })
	})
	t.Run("AddRaftVoterResponse", func(t *testing.T) {
		differ[AddRaftVoterResponse](t, 1, func() kmsgBody { return kmsg.NewPtrAddRaftVoterResponse() }, func(*AddRaftVoterResponse) {})
	})
}

func differ[M message, P coder[M]](t *testing.T, highest int16, newKmsg func() kmsgBody, rebuild func(*M)) {
	rng := rand.New(rand.NewPCG(932, 1222))
	for range 1000 {
		version := int16(rng.IntN(int(highest) + 1))
		theirs := newKmsg()
		fill(rng, reflect.ValueOf(theirs).Elem())
		theirs.SetVersion(version)
		body := theirs.AppendTo(nil)

		var m M
		if o, p := P(&m).Decode(body, 0, version); o != Exact {
			t.Fatalf("v%d %v: %v\n%x", version, o, p, body)
		}
		if ours := P(&m).Append(nil, version); !bytes.Equal(ours, body) {
			t.Fatalf("v%d\nkmsg %x\nours %x", version, body, ours)
		}
		rebuild(&m)
		ours := P(&m).Append([]byte("before"), version)[len("before"):]
		if !bytes.Equal(ours, body) {
			t.Fatalf("v%d rebuilt\nkmsg %x\nours %x", version, body, ours)
		}
		back := newKmsg()
		back.SetVersion(version)
		if err := back.ReadFrom(ours); err != nil {
			t.Fatal(version, err)
		}
		if again := back.AppendTo(nil); !bytes.Equal(again, ours) {
			t.Fatalf("v%d\nours %x\nkmsg %x", version, ours, again)
		}
	}
}

// rebuild makes an array anew, each element changed by f.
func rebuild[T element](a Array[T], f func(*T)) Array[T] {
	var out Array[T]
	for e := range a.All() {
		if f != nil {
			f(&e)
		}
		out.Append(e)
	}
	return out
}

func rebuildTags(t Tags) Tags {
	var out Tags
	for tag, data := range t.All() {
		out.Append(tag, data)
	}
	return out
}

func rebuildAckTopics(a Array[AckTopic]) Array[AckTopic] {
	return rebuild(a, func(topic *AckTopic) {
		topic.Tags = rebuildTags(topic.Tags)
		topic.Partitions = rebuild(topic.Partitions, func(p *AckPartition) {
			p.Tags = rebuildTags(p.Tags)
			p.Batches = rebuild(p.Batches, func(b *AckBatch) { b.Tags = rebuildTags(b.Tags) })
		})
	})
}

func rebuildShareFetchRequest(m *ShareFetchRequest) {
	m.Topics = rebuildAckTopics(m.Topics)
	m.ForgottenTopicsData = rebuild(m.ForgottenTopicsData, func(f *ForgottenTopic) { f.Partitions = rebuild(f.Partitions, nil) })
}

func rebuildShareFetchResponse(m *ShareFetchResponse) {
	m.NodeEndpoints = rebuild(m.NodeEndpoints, nil)
	m.Responses = rebuild(m.Responses, func(topic *FetchResultTopic) {
		topic.Partitions = rebuild(topic.Partitions, func(p *FetchResult) { p.AcquiredRecords = rebuild(p.AcquiredRecords, nil) })
	})
}

func rebuildAckResults(a Array[AckResultTopic]) Array[AckResultTopic] {
	return rebuild(a, func(topic *AckResultTopic) { topic.Partitions = rebuild(topic.Partitions, nil) })
}

func rebuildShareAcknowledgeResponse(m *ShareAcknowledgeResponse) {
	m.NodeEndpoints = rebuild(m.NodeEndpoints, nil)
	m.Responses = rebuildAckResults(m.Responses)
}
