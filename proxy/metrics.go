package proxy

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// metrics are what an operator watches. Nothing that a client chooses becomes a label.
type metrics struct {
	connections *prometheus.GaugeVec   // side
	total       *prometheus.CounterVec // side, result
	decode      *prometheus.CounterVec // api, reason
	nonKafka    *prometheus.CounterVec // kind
	ended       *prometheus.CounterVec // reason
	unmapped    *prometheus.CounterVec // api
	tables      *prometheus.CounterVec // policy, result
	upstream    *prometheus.HistogramVec
	decision    *prometheus.HistogramVec // policy
	failures    *prometheus.CounterVec   // policy, done
	took        [3]prometheus.Observer   // upstream's series by carrier: looking them up would cost more than observing
	buffered    prometheus.GaugeFunc
	frames      *frameCollector
}

func newMetrics(s *Server) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ackproxy_" + name, Help: help}, labels)
	}
	m := &metrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ackproxy_connections", Help: "Open connections."}, []string{"side"}),
		total:       counter("connections_total", "Connections opened, and those that could not be.", "side", "result"),
		decode:      counter("decode_errors_total", "Frames that did not decode.", "api", "reason"),
		nonKafka:    counter("non_kafka_connections_total", "Connections that spoke another protocol.", "kind"),
		ended:       counter("connections_closed_total", "Connections that the proxy ended, by the rule that was broken.", "reason"),
		unmapped:    counter("endpoints_removed_total", "Addresses removed from answers because no listener stands for them.", "api"),
		tables:      counter("endpoint_tables_total", "Tables of endpoints that policies were asked for.", "policy", "result"),
		upstream: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ackproxy_upstream_seconds",
			Help: "Time from an audited request to its answer.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16)}, []string{"api"}),
		decision: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ackproxy_policy_seconds",
			Help: "Time that a policy took to decide.", Buckets: prometheus.ExponentialBuckets(0.000005, 4, 10)}, []string{"policy"}),
		failures: counter("policy_failures_total", "Decisions that a policy failed to make, and what was done instead.", "policy", "done"),
		buffered: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ackproxy_buffered_bytes",
			Help: "Bytes of frames held whole, and of what unanswered requests keep (protocol.max_buffered)."},
			func() float64 { return float64(s.limits.buffered.Load()) }),
		frames: &frameCollector{srv: s},
	}
	for carrier, api := range map[policy.Carrier]string{policy.ShareFetch: "ShareFetch", policy.ShareAcknowledge: "ShareAcknowledge",
		policy.TxnShareAcknowledge: "TxnShareAcknowledge"} {
		m.took[carrier] = m.upstream.WithLabelValues(api)
	}
	m.begin(s.cfg.Policies)
	return m
}

// begin has series that somebody may want to be told of from 0 on: to Prometheus one that begins at 1 has not risen.
func (m *metrics) begin(policies *policy.Chain) {
	for _, r := range reasons {
		m.ended.WithLabelValues(r.name)
	}
	m.total.WithLabelValues("client", "accept_error")
	m.total.WithLabelValues("broker", "dial_error")
	policies.Failures(func(name string, done policy.FailureMode) { m.failures.WithLabelValues(name, done.String()) })
}

func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.connections, m.total, m.decode, m.nonKafka, m.ended, m.unmapped, m.tables, m.upstream, m.decision, m.failures, m.buffered, m.frames} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// decided counts what policies took, and what they failed to do.
func (m *metrics) decided(d *policy.Decision) {
	for i := range d.Trail {
		step := &d.Trail[i]
		m.decision.WithLabelValues(step.Policy).Observe(step.Took.Seconds())
		if step.Err != nil && !d.Gone {
			m.failures.WithLabelValues(step.Policy, step.Failed.String()).Inc()
		}
	}
}

func (m *metrics) closed(why string) {
	if why != "" && why != "io" {
		m.ended.WithLabelValues(why).Inc()
	}
}

const (
	countedKeys     = int(codec.KeyUnregisterController) + 1
	countedVersions = 24
)

// counts holds the frames of one listener by key and version: plain counters, since they are on every request's path. The last row is
// for keys that Kafka has not assigned.
type counts struct {
	requests, forwarded, responses [countedKeys + 1][countedVersions]atomic.Uint64
}

func count(table *[countedKeys + 1][countedVersions]atomic.Uint64, key, version int16) {
	k, v := int(uint16(key)), int(uint16(version))
	if k >= countedKeys {
		k, v = countedKeys, 0
	}
	table[k][min(v, countedVersions-1)].Add(1)
}

// frameCollector turns every listener's counts into metrics at scrape time.
type frameCollector struct{ srv *Server }

var (
	frameLabels   = []string{"listener", "node_id", "api", "api_version", "decoded", "answered_by"}
	requestsDesc  = prometheus.NewDesc("ackproxy_requests_total", "Requests received.", frameLabels, nil)
	forwardedDesc = prometheus.NewDesc("ackproxy_requests_forwarded_total", "Requests passed to a broker.", frameLabels, nil)
	responsesDesc = prometheus.NewDesc("ackproxy_responses_total", "Responses passed to a client.", frameLabels, nil)
)

// Describe implements prometheus.Collector.
func (f *frameCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- requestsDesc
	ch <- forwardedDesc
	ch <- responsesDesc
}

// Collect implements prometheus.Collector.
func (f *frameCollector) Collect(ch chan<- prometheus.Metric) {
	for _, l := range f.srv.snapshot() {
		f.table(ch, requestsDesc, l, &l.counts.requests)
		f.table(ch, forwardedDesc, l, &l.counts.forwarded)
		f.table(ch, responsesDesc, l, &l.counts.responses)
	}
}

func (f *frameCollector) table(ch chan<- prometheus.Metric, desc *prometheus.Desc, l *listener, t *[countedKeys + 1][countedVersions]atomic.Uint64) {
	for k := range t {
		for v := range t[k] {
			n := t[k][v].Load()
			if n == 0 {
				continue
			}
			name, decoded := codec.Name(int16(k)), strconv.FormatBool(f.srv.reads(int16(k)))
			if k == countedKeys {
				name = "unknown"
			}
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n),
				l.name, strconv.Itoa(int(l.node)), name, strconv.Itoa(v), decoded, "broker")
		}
	}
}
