package audit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy"
)

const (
	otherLabel   = "_other"   // beyond the bound of series
	unknownLabel = "_unknown" // a name that is not known, or a group that was not sent
)

// metrics are an auditor's. Series are looked up by name once and then kept, so that counting does not allocate. Only the writing
// goroutine counts acknowledgements.
type metrics struct {
	acksVec, failuresVec, anomaliesVec, editsVec *prometheus.CounterVec // nil where another auditor counts these

	written, dropped    prometheus.Counter
	queueBytes, headSeq prometheus.Gauge
	droppedN            atomic.Uint64

	edits map[string]*editSeries

	groups     map[string]*groupSeries
	pairs, max int // pairs of group and topic

	registerer prometheus.Registerer
	registered []prometheus.Collector
}

// owners says which auditor counts acknowledgements in a vector, while it is open. Vectors stay registered after that, with what they have.
var owners sync.Map // *prometheus.CounterVec: *metrics

type groupSeries struct {
	label     string
	topics    map[string]*topicSeries
	other     *topicSeries // shared by the topics beyond the bound
	anomalies map[string]prometheus.Counter
}

type topicSeries struct {
	acks     [len(totals{})][carriers][states]prometheus.Counter
	failures map[int16]prometheus.Counter
}

const carriers = 3

// editSeries are a policy's, by policy.Action.
type editSeries [len(editNames)]prometheus.Counter

// maxPolicies bounds the policies that have series of their own. The configuration names them; this is for names that change with it.
const maxPolicies = 100

// newMetrics registers what is not registered yet, and takes over what is. Where an open auditor at the same registerer counts
// acknowledgements this one does not.
func newMetrics(cfg Config) (*metrics, error) {
	m := &metrics{groups: make(map[string]*groupSeries), edits: make(map[string]*editSeries), max: cfg.MaxSeries, registerer: cfg.Registerer}
	var err error
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		return register(m, vec, &err)
	}
	gauge := func(name, help string) prometheus.Gauge {
		vec := register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"stream"}), &err)
		return vec.WithLabelValues(cfg.Name)
	}
	acks := counter("ackproxy_share_acks_total", "Records acknowledged, by what was asked and what the broker said.",
		"group", "topic", "type", "carrier", "verdict")
	failures := counter("ackproxy_share_ack_errors_total", "Partitions whose acknowledgements were refused.", "group", "topic", "error")
	anomalies := counter("ackproxy_share_anomalies_total", "Requests and answers that should not occur.", "group", "kind")
	edits := counter("ackproxy_policy_edits_total", "Records of which policies changed or withheld the acknowledgement.", "policy", "action")
	if _, taken := owners.LoadOrStore(acks, m); !taken {
		m.acksVec, m.failuresVec, m.anomaliesVec, m.editsVec = acks, failures, anomalies, edits
	}
	events := counter("ackproxy_audit_events_total", "Audit events written, and lost.", "stream", "result")
	m.written, m.dropped = events.WithLabelValues(cfg.Name, "written"), events.WithLabelValues(cfg.Name, "dropped")
	m.queueBytes = gauge("ackproxy_audit_queue_bytes", "Bytes waiting to be written to the audit log.")
	m.headSeq = gauge("ackproxy_audit_head_seq", "Number of the last line of the audit log.")
	if err != nil {
		m.unregister()
		return nil, err
	}
	return m, nil
}

// register returns the collector to use: the given one, or one of the same description that is there already.
func register[C prometheus.Collector](m *metrics, c C, errp *error) C {
	if m.registerer == nil {
		return c
	}
	err := m.registerer.Register(c)
	var dup prometheus.AlreadyRegisteredError
	if errors.As(err, &dup) {
		if have, ok := dup.ExistingCollector.(C); ok {
			return have
		}
	}
	if err != nil {
		*errp = errors.Join(*errp, fmt.Errorf("audit metrics: %w", err))
		return c
	}
	m.registered = append(m.registered, c)
	return c
}

// release lets a later auditor count.
func (m *metrics) release() {
	if m.acksVec != nil {
		owners.CompareAndDelete(m.acksVec, m)
	}
}

// unregister takes back what this auditor registered, when it comes to nothing.
func (m *metrics) unregister() {
	m.release()
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
	m.registered = nil
}

func (m *metrics) drop(events uint64) {
	m.droppedN.Add(events)
	m.dropped.Add(float64(events))
}

// acks counts one event: records by type, and the partition where it was refused.
func (m *metrics) acks(r *policy.Request, topic string, sum *totals, v *verdict) {
	if m.acksVec == nil {
		return
	}
	g := m.group(r.GroupID)
	t := m.topic(g, topic)
	for kind, n := range sum {
		if n == 0 {
			continue
		}
		c := &t.acks[kind][r.Carrier][v.state]
		if *c == nil {
			*c = m.acksVec.WithLabelValues(g.label, m.topicLabel(g, t, topic), kindLabel(kind), r.Carrier.String(), stateNames[v.state])
		}
		(*c).Add(float64(min(n, policy.MostCounted)))
	}
	if v.state == refused {
		m.failure(g, t, topic, v.code)
	}
}

func (m *metrics) failure(g *groupSeries, t *topicSeries, topic string, code int16) {
	name := ErrorName(code)
	if name == "" {
		name, code = otherLabel, -2 // no code of Kafka's: one series for all
	}
	c, ok := t.failures[code]
	if !ok {
		c = m.failuresVec.WithLabelValues(g.label, m.topicLabel(g, t, topic), name)
		t.failures[code] = c
	}
	c.Inc()
}

// edit counts records that a policy edited in what went on to the broker.
func (m *metrics) edit(name string, withheld bool, records int64) {
	if m.editsVec == nil {
		return
	}
	s, ok := m.edits[name]
	if !ok {
		if len(m.edits) >= maxPolicies {
			name = otherLabel
		}
		if s, ok = m.edits[name]; !ok {
			s = new(editSeries)
			m.edits[strings.Clone(name)] = s
		}
	}
	c := &s[action(withheld)]
	if *c == nil {
		*c = m.editsVec.WithLabelValues(label(name), editNames[action(withheld)])
	}
	(*c).Add(float64(min(records, policy.MostCounted)))
}

func (m *metrics) anomaly(group []byte, kind string) {
	if m.anomaliesVec == nil {
		return
	}
	g := m.group(group)
	c, ok := g.anomalies[kind]
	if !ok {
		c = m.anomaliesVec.WithLabelValues(g.label, kind)
		g.anomalies[kind] = c
	}
	c.Inc()
}

// group finds a group's series, or those of all groups beyond the bound. There are at most max groups, "_other" apart.
func (m *metrics) group(name []byte) *groupSeries {
	if g, ok := m.groups[string(name)]; ok {
		return g
	}
	key := string(name)
	if len(m.groups) >= m.max {
		if g, ok := m.groups[otherLabel]; ok {
			return g
		}
		key = otherLabel
	}
	g := &groupSeries{label: label(key), topics: make(map[string]*topicSeries), anomalies: make(map[string]prometheus.Counter)}
	m.groups[key] = g
	return g
}

func (m *metrics) topic(g *groupSeries, name string) *topicSeries {
	if t, ok := g.topics[name]; ok {
		return t
	}
	t := &topicSeries{failures: make(map[int16]prometheus.Counter)}
	if m.pairs < m.max && g.label != otherLabel {
		m.pairs++
		g.topics[strings.Clone(name)] = t
		return t
	}
	if g.other == nil {
		g.other = t
	}
	return g.other
}

func (m *metrics) topicLabel(g *groupSeries, t *topicSeries, name string) string {
	if t == g.other {
		return otherLabel
	}
	return label(name)
}

// label makes a text fit for a label value: UTF-8, of bounded length, never empty.
func label(s string) string {
	if s == "" {
		return unknownLabel
	}
	const most = 255
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func kindLabel(i int) string {
	if i < len(typeNames) {
		return typeNames[i]
	}
	return "other"
}
