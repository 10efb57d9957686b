package dlq

import (
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

func TestRejectIsDeadLettered(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.keep(3)
	v := r.decide(r.request(1, reject(0, 1), accept(2, 2)))
	if len(v.Edits) != 0 || v.Reason != "dead letters: 2 produced" {
		t.Fatalf("verdict %+v", v)
	}
	for i, l := range r.letters("dlq.orders", 2) {
		if l.Partition != 1 || string(l.Key) != "k" || string(l.Value) != string(r.kept[int64(i)].Value) {
			t.Errorf("letter %d: partition %d, key %q, value %q", i, l.Partition, l.Key, l.Value)
		}
		if l.Headers[0].Key != "h" || header(l, "h") != "orig" || header(l, "__dlq.errors.group") != "g1" || header(l, "ackproxy.payload") != "full" {
			t.Errorf("letter %d: headers %v", i, l.Headers)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	for name, q := range map[string]*policy.Request{
		"accept":            r.request(1, accept(0, 9)),
		"release, not last": r.request(4, release(0, 9)),
		"release, unseen":   r.request(0, release(0, 9)),
	} {
		if v := r.decide(q); len(v.Edits) != 0 || v.Reason != "" {
			t.Errorf("%s: verdict %+v", name, v)
		}
	}
}
