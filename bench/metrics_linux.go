package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// parseMetrics sums the series of each metric of a Prometheus page in text form. ackproxy_audit_events_total is summed by its label
// "result" instead.
func parseMetrics(page io.Reader) (map[string]float64, error) {
	sums := map[string]float64{}
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if at < 0 || err != nil {
			return nil, fmt.Errorf("metrics: no value in %q", line)
		}
		name, labels, _ := strings.Cut(line[:at], "{")
		if name == "ackproxy_audit_events_total" {
			_, result, _ := strings.Cut(labels, `result="`)
			name, _, _ = strings.Cut(result, `"`)
		}
		sums[name] += v
	}
	return sums, lines.Err()
}
