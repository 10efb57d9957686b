package dlq

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A letter that comes alone is started at once, as are others of its request. Those of other requests wait for the next departure, and go together
// and in order.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gatherer
		var mu sync.Mutex
		var started []int
		requests := map[string]context.Context{}
		add := func(request string, n int) {
			if requests[request] == nil {
				requests[request] = context.WithValue(t.Context(), &g, request)
			}
			g.add(requests[request], func() {
				mu.Lock()
				defer mu.Unlock()
				started = append(started, n)
			})
		}
		want := func(what string, n ...int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(started, n) {
				t.Fatalf("%s: %v have started, want %v", what, started, n)
			}
		}
		add("a", 1)
		add("a", 2)
		want("nothing came before", 1, 2)
		add("b", 3)
		time.Sleep(gatherFor / 2)
		add("c", 4)
		add("a", 5)
		want("others wait", 1, 2, 5)
		time.Sleep(gatherFor/2 - 1)
		synctest.Wait()
		want("just before the departure", 1, 2, 5)
		time.Sleep(1)
		synctest.Wait()
		want("the departure", 1, 2, 5, 3, 4)
		add("a", 6)
		want("soon after a departure", 1, 2, 5, 3, 4)
		time.Sleep(gatherFor)
		synctest.Wait()
		want("the next one", 1, 2, 5, 3, 4, 6)
		time.Sleep(gatherFor)
		synctest.Wait()
		add("d", 7)
		want("nothing came for a while", 1, 2, 5, 3, 4, 6, 7)
	})
}
