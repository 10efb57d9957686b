package dlq

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

// groupSettings are a cluster's, by resource: "group", "broker" or "topic" and the name, and setting.
type groupSettings map[kmsg.ConfigResourceType]map[string]map[string]string

func fixed(s groupSettings) func() groupSettings { return func() groupSettings { return s } }

// describe answers DescribeConfigs with them. What is not there has no settings; a topic that is not there does not exist.
func (r *rig) describe(now func() groupSettings) {
	r.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(q kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		answer, s := q.ResponseKind().(*kmsg.DescribeConfigsResponse), now()
		for _, one := range q.(*kmsg.DescribeConfigsRequest).Resources {
			got := kmsg.NewDescribeConfigsResponseResource()
			got.ResourceType, got.ResourceName = one.ResourceType, one.ResourceName
			name := one.ResourceName
			if one.ResourceType == kmsg.ConfigResourceTypeBroker {
				name = ""
			}
			values, there := s[one.ResourceType][name]
			if !there && one.ResourceType == kmsg.ConfigResourceTypeTopic {
				got.ErrorCode = kerr.UnknownTopicOrPartition.Code
			}
			for k, v := range values {
				c := kmsg.NewDescribeConfigsResponseResourceConfig()
				c.Name, c.Value = k, &v
				got.Configs = append(got.Configs, c)
			}
			answer.Resources = append(answer.Resources, got)
		}
		return answer, nil, true
	})
}

// finalize sets the level of share.version.
func (r *rig) finalize(level int16) {
	r.cluster.ControlKey(int16(kmsg.ApiVersions), func(q kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		if q.(*kmsg.ApiVersionsRequest).ClientSoftwareVersion != "dlq" { // kgo's own, for a connection
			return nil, nil, false
		}
		answer := q.ResponseKind().(*kmsg.ApiVersionsResponse)
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = shareFeature, level, level
		answer.FinalizedFeatures = append(answer.FinalizedFeatures, f)
		return answer, nil, true
	})
}

func TestStandDown(t *testing.T) {
	group := func(topic string) map[string]string { return map[string]string{keyQueueTopic: topic} }
	allowed := map[string]map[string]string{"dlq.g": {keyQueueAllow: "true"}, "plain": {keyQueueAllow: "true"}, "orders": {keyQueueAllow: "true"}}
	for _, c := range []struct {
		name   string
		level  int16
		group  map[string]string
		broker map[string]string
		topics map[string]map[string]string
		config string
		down   bool
		notice string
		why    string // it took over
	}{
		{"on and effective", 2, group("dlq.g"), nil, allowed, "when_effective", true, "is set and works", ""},
		{"never", 2, group("dlq.g"), nil, allowed, "never", false, "is set and works", ""},
		{"off", 2, group(""), nil, allowed, "when_effective", false, "", ""},
		{"no topic", 2, group("dlq.g"), nil, nil, "when_effective", false, "there is no such topic", "no_topic"},
		{"no topic, made by the broker", 2, group("dlq.g"), map[string]string{keyQueueAuto: "true"}, nil, "when_effective", true, "works", ""},
		{"no prefix", 2, group("plain"), nil, allowed, "when_effective", false, `does not begin with "dlq."`, "prefix"},
		{"another prefix", 2, group("plain"), map[string]string{keyQueuePrefix: "pl"}, allowed, "when_effective", true, "works", ""},
		{"no flag", 2, group("dlq.g"), nil, map[string]map[string]string{"dlq.g": {}}, "when_effective", false, keyQueueAllow, "not_allowed"},
		{"the level", 1, group("dlq.g"), nil, allowed, "when_effective", false, "share.version is finalized at 1", "share_version"},
		{"the source itself", 2, group("orders"), map[string]string{keyQueuePrefix: ""}, allowed, "when_effective", false, "", "source_topic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.describe(fixed(groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": c.group}, kmsg.ConfigResourceTypeBroker: {"": c.broker},
				kmsg.ConfigResourceTypeTopic: c.topics}))
			r.finalize(c.level)
			r.start(map[string]any{"source": r.address(), "stand_down": c.config})
			r.keep(1)
			v := r.decide(r.request(1, reject(0, 0)))
			if down := strings.HasPrefix(v.Reason, "the broker"); down != c.down || !down && v.Reason != "dead letters: 1 produced" {
				t.Errorf("verdict %+v", v)
			}
			if !r.notices.has(c.notice) {
				t.Errorf("notices %q", r.notices.all)
			}
			for _, why := range []string{whyLevel, whyPrefix, whyNoTopic, whyNoFlag, whySource, whyUnseen} {
				want := 0.0
				if why == c.why {
					want = 1
				}
				if n := testutil.ToFloat64(r.policy.metrics.tookOver.WithLabelValues(why)); n != want {
					t.Errorf("took over %v times because of %s, want %v", n, why, want)
				}
			}
		})
	}
}

func TestGroupSettings(t *testing.T) {
	group, broker := map[string]string{keyGroupLimit: "3", keyGroupLock: "20000"}, map[string]string{keyBrokerLimit: "7", keyBrokerLock: "40000"}
	for name, c := range map[string]struct {
		groupSettings groupSettings
		limit         int
		lock          time.Duration
	}{
		"group":         {groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": group}, kmsg.ConfigResourceTypeBroker: {"": broker}}, 3, 20 * time.Second},
		"broker":        {groupSettings{kmsg.ConfigResourceTypeBroker: {"": broker}}, 7, 40 * time.Second},
		"configuration": {nil, 4, 10 * time.Second},
	} {
		r := newRig(t)
		r.describe(fixed(c.groupSettings))
		r.start(map[string]any{"source": r.address(), "group": map[string]any{"delivery_limit": 4, "lock": "10s"}})
		if g := r.policy.groups.get(t.Context(), "g1"); g.limit != c.limit || g.lock != c.lock {
			t.Errorf("%s: limit %d, lock %v", name, g.limit, g.lock)
		}
	}
}

// TestGroupSettingsUnreadable does the work with what the configuration says.
func TestGroupSettingsUnreadable(t *testing.T) {
	r := newRig(t)
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	r.start(map[string]any{"source": r.address()})
	r.keep(1)
	if v := r.decide(r.request(1, reject(0, 0))); v.Reason != "dead letters: 1 produced" {
		t.Errorf("verdict %+v", v)
	}
	if g := r.policy.groups.known("g1"); g.limit != 5 {
		t.Errorf("limit %d", g.limit)
	}
}

// TestQueueGoesOff takes over again once the broker's queue is off, and when nobody can say: at the first Reject after a time without any.
func TestQueueGoesOff(t *testing.T) {
	for _, quiet := range []time.Duration{2*groupRetry + time.Millisecond, time.Hour} {
		for _, how := range []string{"off", "unreadable", "silent"} {
			r := newRig(t)
			var now atomic.Value
			now.Store("on")
			r.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
				r.cluster.KeepControl()
				if now.Load() == "unreadable" {
					return nil, errors.New("cut off"), true
				}
				return nil, nil, now.Load() == "silent"
			})
			on := groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": {keyQueueTopic: "dlq.g"}},
				kmsg.ConfigResourceTypeTopic: {"dlq.g": {keyQueueAllow: "true"}}}
			r.describe(func() groupSettings {
				if now.Load() == "off" {
					return nil
				}
				return on
			})
			r.finalize(2)
			r.start(map[string]any{"source": r.address()})
			r.keep(1)
			if v := r.decide(r.request(1, reject(0, 0))); !strings.HasPrefix(v.Reason, "the broker") {
				t.Fatalf("on: verdict %+v", v)
			}
			now.Store(how)
			r.ahead.Store(int64(quiet))
			for range 2 {
				if v := r.decide(r.request(1, reject(0, 0))); v.Reason != "dead letters: 1 produced" {
					t.Errorf("%s, after %v: verdict %+v", how, quiet, v)
				}
			}
		}
	}
}

// TestLimitIsLowered is about the first Reject, or Release, after a time without any: a limit that counted then does no more.
func TestLimitIsLowered(t *testing.T) {
	for _, silent := range []bool{false, true} {
		r := newRig(t)
		var limit atomic.Value
		limit.Store("10")
		r.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			return nil, nil, silent && limit.Load() == "3"
		})
		r.describe(func() groupSettings {
			return groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": {keyGroupLimit: limit.Load().(string)}}}
		})
		r.start(map[string]any{"source": r.address(), "on_failure": []string{"release", "withhold"}, "group": map[string]any{"delivery_limit": 4}})
		r.keep(1)
		r.decide(r.request(1, reject(0, 0)))
		limit.Store("3")
		r.ahead.Store(int64(time.Hour))
		if v := r.decide(r.request(4, release(0, 0))); v.Reason != "dead letters: 1 produced" {
			t.Errorf("a Release, silent is %v: verdict %+v", silent, v)
		}
		r.down(kerr.NotEnoughReplicas)
		if v := r.decide(r.request(3, reject(0, 0))); len(v.Edits) != 1 || v.Edits[0].Action != policy.Withhold {
			t.Errorf("the third delivery, silent is %v: verdict %+v", silent, v)
		}
		if v := r.decide(r.request(1, reject(0, 0))); len(v.Edits) != 1 || v.Edits[0].Type != policy.Release {
			t.Errorf("the first delivery, silent is %v: verdict %+v", silent, v)
		}
	}
}

// TestBusyGroupDoesNotWait goes on with settings that are read again, and waits for a source that says nothing once.
func TestBusyGroupDoesNotWait(t *testing.T) {
	r := newRig(t)
	var silent atomic.Bool
	r.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		return nil, nil, silent.Load()
	})
	r.describe(fixed(groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": {keyGroupLimit: "3"}}}))
	r.start(map[string]any{"source": r.address(), "budget": "4s"})
	get := func() (took time.Duration) {
		began := time.Now()
		r.policy.groups.get(t.Context(), "g1")
		return time.Since(began)
	}
	get()
	silent.Store(true)
	r.ahead.Store(int64(groupFresh + groupRetry/2))
	if took := get(); took > groupWait/2 {
		t.Errorf("a reading that has just begun: %v", took)
	}
	r.ahead.Store(int64(groupFresh + 2*groupRetry))
	if took := get(); took < groupWait {
		t.Errorf("settings that are too old: %v", took)
	}
	if took := get(); took > groupWait/2 {
		t.Errorf("and once more: %v", took)
	}
	if g := r.policy.groups.known("g1"); !g.doubtful || g.limit != 3 {
		t.Errorf("group %+v", g)
	}
}

// TestWaitsAgain after a reading that was late: the next time without requests makes its settings as old as any.
func TestWaitsAgain(t *testing.T) {
	r := newRig(t)
	on := groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": {keyQueueTopic: "dlq.g"}},
		kmsg.ConfigResourceTypeTopic: {"dlq.g": {keyQueueAllow: "true"}}}
	var now atomic.Value
	now.Store(on)
	r.describe(func() groupSettings { return now.Load().(groupSettings) })
	r.finalize(2)
	r.start(map[string]any{"source": r.address()})
	for range lookups { // others are being looked up
		r.policy.groups.slots <- struct{}{}
	}
	r.policy.groups.get(t.Context(), "g1")
	for range lookups {
		<-r.policy.groups.slots
	}
	until(t, "they are read", func() bool { g := r.policy.groups.known("g1"); return g.own.works("orders") })
	now.Store(groupSettings{})
	r.ahead.Store(int64(3 * groupRetry))
	if g := r.policy.groups.get(t.Context(), "g1"); g.own.works("orders") {
		t.Errorf("group %+v", g)
	}
}

// TestReleaseAtTheLimit uses the group's own limit.
func TestReleaseAtTheLimit(t *testing.T) {
	for limit, text := range map[int]string{2: "dead letters: 2 produced", 3: ""} {
		for _, on := range [][]string{{"reject", "release_at_limit"}, {"reject"}} {
			r := newRig(t)
			r.describe(fixed(groupSettings{kmsg.ConfigResourceTypeGroupConfig: {"g1": {keyGroupLimit: strconv.Itoa(limit)}}}))
			r.start(map[string]any{"source": r.address(), "on": on})
			r.keep(3)
			want := text
			if len(on) == 1 {
				want = ""
			}
			if v := r.decide(r.request(2, release(0, 1), accept(2, 2))); v.Reason != want || len(v.Edits) > 0 {
				t.Errorf("limit %d, on %v: verdict %+v", limit, on, v)
			}
			if want == "" {
				continue
			}
			for _, l := range r.letters("dlq.orders", 2) {
				if header(l, "ackproxy.dlq.reason") != "release_at_limit" || header(l,
					"__dlq.errors.message") != "Offset delivery count exceeded the threshold." {
					t.Errorf("headers %v", l.Headers)
				}
			}
		}
	}
}

func TestBreaker(t *testing.T) {
	for _, open := range []string{"release", "pass"} {
		r := newRig(t)
		now := time.Now()
		r.start(map[string]any{"breaker": map[string]any{"rate": 2, "window": "1s", "probe": "5s", "open": open}})
		r.policy.deps.Now = func() time.Time { return now }
		r.keep(10)
		step := func(after time.Duration, count int16, want string, edits int) {
			t.Helper()
			now = now.Add(after)
			if v := r.decide(r.request(count, reject(0, 1))); !strings.HasPrefix(v.Reason, want) || len(v.Edits) != edits {
				t.Errorf("%s: verdict %+v instead of %q", open, v, want)
			}
		}
		held, edits := "dead letters: 2 released", 1
		if open == "pass" {
			held, edits = "dead letters: 2 forwarded", 0
		}
		step(0, 1, "dead letters: 2 produced", 0)
		step(0, 1, held, edits)
		if r.policy.brakes.opened() != 1 || !r.notices.has("the breaker opened") {
			t.Errorf("%s: %d open, notices %q", open, r.policy.brakes.opened(), r.notices.all)
		}
		if open == "release" {
			step(0, 5, "dead letters: 2 produced", 0) // at the limit, a Release would lose them
		}
		step(2*time.Second, 1, held, edits) // too early for a probe
		step(4*time.Second, 1, "dead letters: 2 produced", 0)
		if r.policy.brakes.opened() != 0 || !r.notices.has("the breaker closed") {
			t.Errorf("%s: the probe did not close it", open)
		}
	}
}

func TestBreakerStaysOpen(t *testing.T) {
	c := &Breaker{Rate: 10, Window: time.Second, Probe: 5 * time.Second}
	now := time.Now()
	b := &breaker{start: now}
	for i := range 200 { // 20 a second for ten seconds
		if b.take(c, now, 1); b.open != (i >= 10) {
			t.Fatalf("after %d: open is %v", i+1, b.open)
		}
		now = now.Add(50 * time.Millisecond)
	}
	for range 100 { // 5 a second
		b.take(c, now, 1)
		now = now.Add(200 * time.Millisecond)
	}
	if b.open {
		t.Error("still open")
	}
}

// TestBreakerAfterQuiet closes at the first request of a group that was quiet for a window since it opened, and a probe is due.
func TestBreakerAfterQuiet(t *testing.T) {
	c := &Breaker{Rate: 10, Window: time.Second, Probe: 5 * time.Second}
	for quiet, open := range map[time.Duration]bool{1500 * time.Millisecond: true, 4 * time.Second: true, time.Hour: false} {
		now := time.Now()
		b := &breaker{start: now}
		b.take(c, now, 11)
		if !b.open {
			t.Fatal("it does not open")
		}
		if b.take(c, now.Add(quiet), 1); b.open != open {
			t.Errorf("after %v: open is %v", quiet, b.open)
		}
	}
}
