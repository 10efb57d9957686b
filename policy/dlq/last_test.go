package dlq

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackproxy/ackproxy/policy"
)

func value(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return -1
	}
	return m.GetCounter().GetValue()
}

// delivery is of an offset of partition 1, count times, locked for 30 s from now.
func (r *rig) delivery(offset int64, count int16, now time.Time) *policy.Delivery {
	return &policy.Delivery{Group: "g1", Member: "m1", TopicID: r.topic, Topic: "orders", Partition: 1, Records: r.kept,
		Acquired: []policy.Acquisition{{First: offset, Last: offset, DeliveryCount: count, Acquired: now, LockUntil: now.Add(30 * time.Second)}}}
}

// answered is what is observed of an acknowledgement of one offset.
func (r *rig) answered(offset int64, kind int8, code int16, now time.Time) *policy.Outcome {
	return &policy.Outcome{Request: policy.Request{GroupID: []byte("g1")},
		Decision: &policy.Decision{Partitions: []policy.Decided{{TopicID: r.topic, Index: 1,
			Pieces: []policy.Piece{{First: offset, Last: offset, Asked: kind, Forwarded: kind}}}}},
		Reply: policy.Reply{State: policy.Answered, Received: now, LockTimeoutMs: 30000,
			Partitions: []policy.PartitionResult{{TopicID: r.topic, Partition: 1, ErrorCode: code}}}}
}

func TestLastDeliveries(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"infer": true, "on_failure": []string{"spool", "withhold"}})
	r.keep(9)
	now := time.Now()
	for offset, count := range []int16{5, 5, 5, 5, 5, 4, 5, 5, 5} {
		r.policy.Delivered(r.delivery(int64(offset), count, now))
	}
	r.policy.Observe(r.answered(0, policy.Accept, 0, now))                    // taken
	r.policy.Observe(r.answered(1, policy.Accept, 121, now))                  // refused: lost
	r.policy.Observe(r.answered(2, policy.Renew, 0, now.Add(20*time.Second))) // until 50 s
	r.policy.Observe(r.answered(3, policy.Reject, 0, now))                    // taken
	staged := r.answered(8, policy.Reject, 0, now)
	staged.Request.Carrier = policy.TxnShareAcknowledge
	r.policy.Observe(staged)                                           // taken: the lock is gone until the transaction ends
	r.policy.Delivered(r.delivery(6, 1, now))                          // again, from the start
	r.policy.Delivered(r.delivery(7, 5, now.Add(time.Hour)))           // again
	lost, expire := r.policy.metrics.lostWithout, r.policy.last.expire //
	for _, step := range []struct {
		after time.Duration
		lost  float64
	}{{29 * time.Second, 0}, {31 * time.Second, 2}, {49 * time.Second, 2}, {51 * time.Second, 3}} {
		if more := expire(now.Add(step.after)); value(lost) != step.lost || !more {
			t.Errorf("after %v: %v lost", step.after, value(lost))
		}
	}
	if expire(now.Add(2 * time.Hour)); value(lost) != 4 {
		t.Errorf("%v lost in the end", value(lost))
	}
	for _, l := range r.letters("dlq.orders", 4) {
		if header(l, "ackproxy.dlq.reason") != "lock_expired_at_limit" || header(l, "h") != "orig" || header(l, "ackproxy.api") != "(none)" {
			t.Errorf("headers %v", l.Headers)
		}
	}
}

// TestLastDeliveryOfUnknownTopic asks the source for the name, and knows the group's own limit before its first last delivery.
func TestLastDeliveryOfUnknownTopic(t *testing.T) {
	r := newRig(t)
	r.fill(1, kgo.NoCompression())
	r.start(map[string]any{"infer": true, "source": r.address()})
	now := time.Now()
	d := r.delivery(0, 1, now)
	d.Topic, d.Records = "", nil
	r.policy.Delivered(d)
	until(t, "the group's settings are looked for", func() bool { return r.policy.groups.entries.Contains("g1") })
	d.Acquired[0].DeliveryCount = 5
	r.policy.Delivered(d)
	r.policy.last.expire(now.Add(time.Minute))
	if l := r.letters("dlq.orders", 1)[0]; header(l, "__dlq.errors.topic") != "orders" || header(l, "ackproxy.payload") != "refetched" {
		t.Errorf("headers %v", l.Headers)
	}
}

// TestInferredIntoSpool counts a letter as spooled that the cluster did not take in time.
func TestInferredIntoSpool(t *testing.T) {
	r := newRig(t)
	up := ways["silent"](r)
	r.start(map[string]any{"infer": true, "on_failure": []string{"spool", "withhold"}, "budget": "50ms"})
	r.keep(1)
	now := time.Now()
	r.policy.Delivered(r.delivery(0, 5, now))
	r.policy.last.expire(now.Add(time.Minute))
	for fate, want := range map[fate]float64{spooled: 1, forwarded: 0} {
		if got := value(r.policy.metrics.fates[fate]); got != want {
			t.Errorf("%v are %s, not %v", got, fateNames[fate], want)
		}
	}
	up()
	r.distinct("dlq.orders", 1)
}

// TestInferredWithoutSpool makes the topic that is missing, and leaves out a payload that it does not take.
func TestInferredWithoutSpool(t *testing.T) {
	r := newRig(t)
	r.start(map[string]any{"infer": true, "source": r.address(), "on_failure": []string{"withhold"}, "topic": "dlq.made",
		"create": map[string]any{"replication": 1}, "max_record": "64KiB"})
	r.keep(1)
	r.kept[1] = policy.Record{Offset: 1, Value: incompressible(1 << 20)} // more than max_record
	now := time.Now()
	for offset := range int64(2) {
		r.policy.Delivered(r.delivery(offset, 5, now))
	}
	r.policy.last.expire(now.Add(time.Minute))
	if got := value(r.policy.metrics.fates[produced]); got != 2 {
		t.Fatalf("%v are produced", got)
	}
	payloads := map[string]string{}
	for _, l := range r.letters("dlq.made", 2) {
		payloads[header(l, "__dlq.errors.offset")] = header(l, "ackproxy.payload")
	}
	if payloads["0"] != "full" || payloads["1"] != "unavailable" {
		t.Errorf("payloads %v", payloads)
	}
}

func TestLastDeliveriesAreBounded(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	d := r.delivery(0, 9, time.Now())
	d.Acquired[0].Last = 1<<63 - 1
	r.policy.Delivered(d)
	if n := r.policy.last.n; n != maxLast {
		t.Errorf("%d are watched", n)
	}
	r.policy.Observe(&policy.Outcome{}) // nobody decided
	o := r.answered(0, policy.Accept, 0, time.Now())
	o.Decision.Partitions[0].Pieces[0].Last = 1<<63 - 1
	if r.policy.Observe(o); r.policy.last.n != 0 {
		t.Errorf("%d are watched still", r.policy.last.n)
	}
}

func TestVerdicts(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	o := r.answered(0, policy.Reject, 0, time.Now())
	r.policy.Observe(o)
	o.Reply.Partitions[0].ErrorCode = 121
	r.policy.Observe(o)
	o.Reply.State = policy.Lost
	o.Decision.Partitions[0].Pieces[0].Last = 4
	r.policy.Observe(o)
	o.Decision.Close = policy.CloseBefore // nothing was forwarded
	r.policy.Observe(o)
	for verdict, want := range map[string]float64{verdictAccepted: 1, verdictRefused: 1, verdictUnknown: 5} {
		if got := value(r.policy.metrics.verdicts.WithLabelValues(verdict)); got != want {
			t.Errorf("%s: %v instead of %v", verdict, got, want)
		}
	}
}
