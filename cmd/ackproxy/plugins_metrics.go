package main

import "github.com/prometheus/client_golang/prometheus"

// pluginCollector turns what plugins count into metrics at scrape time.
type pluginCollector []plugin

func pluginDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ackproxy_plugin_"+name, help, append([]string{"policy"}, labels...), nil)
}

var (
	pluginUp       = pluginDesc("up", "1 while the plugin's process is healthy.")
	pluginStarts   = pluginDesc("starts_total", "Starts of the plugin's process.")
	pluginFailed   = pluginDesc("failed_starts_total", "Starts of the plugin's process that never became healthy.")
	pluginAnswers  = pluginDesc("answers_total", "Decisions that the plugin answered in time, late, and unasked.", "result")
	pluginOutcomes = pluginDesc("outcomes_total", "Outcomes that the plugin took, and those that it was not shown.", "result")
	pluginQueued   = pluginDesc("queued_outcomes", "Outcomes that wait to be shown to the plugin.")
)

// Describe implements prometheus.Collector.
func (c pluginCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pluginUp, pluginStarts, pluginFailed, pluginAnswers, pluginOutcomes, pluginQueued} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c pluginCollector) Collect(ch chan<- prometheus.Metric) {
	for _, p := range c {
		count := func(d *prometheus.Desc, n uint64, result ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{p.Name()}, result...)...)
		}
		s, up := p.Stats(), 0.0
		if p.Ready() == nil {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(pluginUp, prometheus.GaugeValue, up, p.Name())
		count(pluginStarts, s.Starts)
		count(pluginFailed, s.FailedStarts)
		count(pluginAnswers, s.Answered, "in_time")
		count(pluginAnswers, s.Late, "late")
		count(pluginAnswers, s.Unknown, "unknown")
		count(pluginOutcomes, s.Observed, "taken")
		count(pluginOutcomes, s.Dropped, "dropped")
		ch <- prometheus.MustNewConstMetric(pluginQueued, prometheus.GaugeValue, float64(s.Queued), p.Name())
	}
}
