package policy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackproxy/ackproxy/codec"
)

func TestPanicIsAnError(t *testing.T) {
	for _, waits := range []bool{false, true} {
		p := fake{"a", Traits{Waits: waits, Budget: time.Minute}, func(_ context.Context, r *Request) (Verdict, error) { return explode(r.Partitions[:0]) }}
		d := chain(t, Member{Policy: p}, says("b", Verdict{})).Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
		err := fmt.Sprint(d.Trail[0].Err)
		if !strings.Contains(err, "index out of range") || !strings.Contains(err, "policy.explode member_test.go:") {
			t.Errorf("waits=%v: %v", waits, err)
		}
		if len(d.Trail) != 2 || d.Edited() {
			t.Errorf("waits=%v: %+v", waits, d)
		}
	}
}

//go:noinline
func explode(p []Partition) (Verdict, error) { return Verdict{Reason: p[3].Topic}, nil }

// waiting is a member that waits, with a second for it.
func waiting(mode FailureMode, decide func(context.Context, *Request) (Verdict, error)) Member {
	return Member{Policy: fake{"waiting", Traits{Waits: true, Budget: time.Hour}, decide}, OnFailure: mode, Timeout: time.Second}
}

func TestLatePolicyFails(t *testing.T) {
	for _, c := range []struct{ heeds, prompt bool }{{true, false}, {false, false}, {true, true}} {
		heeds := c.heeds
		synctest.Test(t, func(t *testing.T) {
			decide := func(ctx context.Context, r *Request) (Verdict, error) {
				if heeds {
					<-ctx.Done()
					return Verdict{}, ctx.Err()
				}
				time.Sleep(time.Minute)
				return Verdict{Close: CloseBefore}, nil
			}
			start := time.Now()
			late := waiting(FailRespond, decide)
			late.Policy = fake{"waiting", Traits{Waits: true, Prompt: c.prompt}, decide}
			d := chain(t, late).Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
			step := d.Trail[0]
			if took := time.Since(start); took != time.Second || step.Took != took {
				t.Errorf("heeds=%v: took %v, the trail says %v", heeds, took, step.Took)
			}
			if !errors.Is(step.Err, context.DeadlineExceeded) || !strings.Contains(step.Err.Error(), "1s") || step.Failed != FailRespond || d.Gone {
				t.Errorf("heeds=%v: %+v", heeds, step)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if d.Partitions[0].Code() != 56 || d.Close != CloseNever {
				t.Errorf("heeds=%v: the late answer changed %+v", heeds, d)
			}
		})
	}
}

// TestLateCallKeepsItsRequest overwrites the frame once the decision is made without the policy, as a connection does that reads on.
func TestLateCallKeepsItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := request(t, false, accepting(3, 9), entry{payments, 1, []codec.AckBatch{batch(5, 6, 1, 2)}})
		client, group, member := string(r.ClientID), string(r.GroupID), string(r.MemberID)
		frame, asked := slices.Clone(r.Frame), fmt.Sprint(Asked(r))
		looked := false
		c := chain(t, waiting(FailForward, func(_ context.Context, r *Request) (Verdict, error) {
			time.Sleep(time.Minute)
			looked = true
			if string(r.ClientID) != client || string(r.GroupID) != group || string(r.MemberID) != member || !slices.Equal(r.Frame, frame) {
				t.Errorf("the request became %+v", r)
			}
			if now := fmt.Sprint(Asked(r)); now != asked || len(r.Partitions) != 2 || r.Partitions[0].Ranges[0] != (Range{3, 9, Accept}) {
				t.Errorf("the request asks %s, partitions %+v", now, r.Partitions)
			}
			return Verdict{}, nil
		}), says("edits", edits(withhold(0, 99, 0))))
		c.Decide(context.Background(), r, nil)
		clear(r.Frame)
		clear(r.ClientID)
		*r = Request{}
		time.Sleep(time.Hour)
		if synctest.Wait(); !looked {
			t.Error("the call did not go on")
		}
	})
}

func TestStuckPolicyIsNotAskedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int32
		c := chain(t, waiting(FailForward, func(context.Context, *Request) (Verdict, error) {
			calls.Add(1)
			<-release
			return Verdict{}, nil
		}))
		r := request(t, false, accepting(0, 9))
		var d *Decision
		for range maxLate + 1 {
			d = c.Decide(context.Background(), r, nil)
		}
		if calls.Load() != maxLate || d.Trail[0].Err == nil || errors.Is(d.Trail[0].Err, context.DeadlineExceeded) {
			t.Errorf("%d calls, then %v", calls.Load(), d.Trail[0].Err)
		}
		close(release)
		synctest.Wait()
		if d = c.Decide(context.Background(), r, nil); d.Trail[0].Err != nil || calls.Load() != maxLate+1 {
			t.Errorf("after the calls ended: %d calls, %v", calls.Load(), d.Trail[0].Err)
		}
	})
}

func TestPolicyThatEndsItsGoroutine(t *testing.T) {
	d := chain(t, waiting(FailForward, func(context.Context, *Request) (Verdict, error) { runtime.Goexit(); return Verdict{}, nil })).
		Decide(context.Background(), request(t, false, accepting(0, 9)), nil)
	if !errors.Is(d.Trail[0].Err, errNoAnswer) {
		t.Errorf("%v", d.Trail[0].Err)
	}
}
