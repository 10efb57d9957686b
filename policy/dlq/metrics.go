package dlq

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

// metrics are the policy's. All have a label policy.
type metrics struct {
	fates         [len(fateNames)]prometheus.Counter
	payloads      map[letter.Payload]prometheus.Counter
	unseen        *prometheus.CounterVec // partitions with too many offsets, by what was done
	verdicts      *prometheus.CounterVec
	drained       *prometheus.CounterVec
	damaged       prometheus.Counter // stretches of the spool
	transactional prometheus.Counter
	transactions  *prometheus.CounterVec // letters in transactions, by what became of them
	lostWithout   prometheus.Counter
	stoodDown     prometheus.Counter
	tookOver      *prometheus.CounterVec // partitions, by why the broker's own queue does not work

	all        []prometheus.Collector
	registerer prometheus.Registerer
	registered []prometheus.Collector
}

func newMetrics(p *Policy) *metrics {
	labels := prometheus.Labels{"policy": p.name}
	vec := func(name, help string, of ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ackproxy_dlq_" + name, Help: help, ConstLabels: labels}, of)
	}
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "ackproxy_dlq_" + name, Help: help, ConstLabels: labels})
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ackproxy_dlq_" + name, Help: help, ConstLabels: labels}, value)
	}
	offsets := vec("offsets_total", "Offsets that were to be dead-lettered, by what became of them.", "result")
	payloads := vec("letters_total", "Dead letters made, by where their payload is from.", "payload")
	m := &metrics{
		unseen:        vec("partitions_over_limit_total", "Partitions of a request with more offsets than max_letters, by what was done.", "result"),
		verdicts:      vec("verdicts_total", "Offsets whose Reject was forwarded, by the broker's verdict.", "verdict"),
		drained:       vec("drained_total", "Dead letters taken from the spool, by result.", "result"),
		damaged:       one("spool_damaged_total", "Stretches of the spool's files that could not be read when it was opened."),
		transactional: one("transactional_total", "Requests that reject in a transaction and passed without dead letters."),
		transactions:  vec("transaction_letters_total", "Dead letters that were to wait for the end of a transaction, by what became of them.", "result"),
		lostWithout:   one("lost_without_dlq_total", "Last deliveries whose lock ran out with no acknowledgement that the broker took."),
		stoodDown:     one("stood_down_total", "Partitions left to the broker's own dead-letter queue."),
		tookOver: vec("took_over_total",
			"Partitions dead-lettered although the broker has a dead-letter queue for the group, by why that does not work.", "why"),
		payloads: make(map[letter.Payload]prometheus.Counter),
	}
	for f, name := range fateNames {
		if fate(f) != pending && fate(f) != queued {
			m.fates[f] = offsets.WithLabelValues(name)
		}
	}
	for _, kind := range [...]letter.Payload{letter.Full, letter.Refetched, letter.Unavailable} {
		m.payloads[kind] = payloads.WithLabelValues(string(kind))
	}
	m.fates[queued] = m.transactions.WithLabelValues(lettersQueued)
	for of, results := range map[*prometheus.CounterVec][]string{ // from 0 on: to Prometheus a series that begins at 1 has not risen
		m.transactions: {lettersWritten, lettersAborted, lettersExpired, lettersLost},
		m.drained:      {drainDelivered, drainBare, drainRefused},
		m.verdicts:     {verdictAccepted, verdictRefused, verdictUnknown},
		m.unseen:       {fateNames[withheld], fateNames[forwarded], fateNames[closed]},
	} {
		for _, result := range results {
			of.WithLabelValues(result)
		}
	}
	m.all = []prometheus.Collector{offsets, payloads, m.unseen, m.verdicts, m.drained, m.damaged, m.transactional, m.transactions, m.lostWithout,
		m.stoodDown, m.tookOver,
		gauge("transaction_bytes", "Bytes of dead letters that wait for the end of a transaction.",
			func() float64 { return float64(p.transactions.bytes()) }),
		gauge("memory_bytes", "Bytes of dead letters that are being produced or spooled.", func() float64 { return float64(p.room.used()) }),
		gauge("spool_bytes", "Bytes that wait in the spool.", func() float64 { bytes, _ := p.spooled(); return float64(bytes) }),
		gauge("spool_age_seconds", "Age of the oldest dead letter in the spool that its topic may take yet.",
			func() float64 { _, age := p.spooled(); return age.Seconds() }),
		gauge("spool_refused", "Dead letters in the spool that no topic will take.", func() float64 { n, _ := p.aside(); return float64(n) }),
		gauge("spool_refused_bytes", "Bytes of the spool that these have.", func() float64 { _, bytes := p.aside(); return float64(bytes) }),
		gauge("spool_usable", "1 while the spool is open.", func() float64 { return flag(p.spoolOpen()) }),
		gauge("breakers_open", "Groups whose breaker is open.", func() float64 { return float64(p.brakes.opened()) })}
	return m
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// register registers all or nothing.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	m.registerer = r
	for _, c := range m.all {
		if err := r.Register(c); err != nil {
			m.close()
			return fmt.Errorf("metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

func (m *metrics) close() {
	if m == nil {
		return
	}
	for _, c := range m.registered {
		m.registerer.Unregister(c)
	}
	m.registered = nil
}
