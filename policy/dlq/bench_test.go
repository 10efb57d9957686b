package dlq

import (
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

// BenchmarkDecide is one connection that rejects 100 records of 1 KiB a request, and one that rejects none.
func BenchmarkDecide(b *testing.B) {
	for name, kind := range map[string]int8{"rejects": policy.Reject, "accepts": policy.Accept} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b)
			r.start(nil)
			value := make([]byte, 1<<10)
			for o := range int64(100) {
				r.kept[o] = policy.Record{Offset: o, Value: value}
			}
			q := r.request(1, policy.Range{First: 0, Last: 99, Type: kind})
			b.ReportAllocs()
			for b.Loop() {
				if v, err := r.policy.Decide(b.Context(), q); err != nil || len(v.Edits) > 0 {
					b.Fatal(v, err)
				}
			}
		})
	}
}
