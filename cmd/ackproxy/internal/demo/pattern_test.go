package demo

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestPattern(t *testing.T) {
	counts := map[kgo.AckStatus]int{}
	other := 0
	for offset := range int64(10_000) {
		s := pattern{7}.decide("orders", 1, offset, 1)
		counts[s]++
		if s != (pattern{7}).decide("orders", 1, offset, 1) {
			t.Fatal("decides otherwise the second time")
		}
		if s != (pattern{8}).decide("orders", 1, offset, 1) {
			other++
		}
		if last := (pattern{7}).decide("orders", 1, offset, lastRelease+1); last == kgo.AckRelease {
			t.Fatalf("offset %d is released at the last", offset)
		}
	}
	for s, want := range map[kgo.AckStatus]int{kgo.AckAccept: 7200, kgo.AckRelease: 1800, kgo.AckReject: 1000} {
		if n := counts[s]; n < want*9/10 || n > want*11/10 {
			t.Errorf("%s: %d, about %d wanted", s, n, want)
		}
	}
	if other < 1000 {
		t.Errorf("another seed decides otherwise for %d records only", other)
	}
}
