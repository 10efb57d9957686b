package outage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ackproxy/ackproxy/e2e/gateway"
	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/dlq/spool"
)

// Fates reads from the metrics of a gateway how many offsets were to be dead-lettered, by what the policy did about them.
func Fates(ctx context.Context, g *gateway.Gateway) (map[string]int, error) {
	page, err := g.Metrics(ctx)
	fates := map[string]int{}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "ackproxy_dlq_offsets_total{") {
			continue
		}
		_, name, _ := strings.Cut(line, `result="`)
		name, _, _ = strings.Cut(name, `"`)
		n, convErr := valueOf(line)
		if n > 0 {
			fates[name] = int(n)
		}
		err = errors.Join(err, convErr)
	}
	return fates, err
}

// SpoolEmpty says whether nothing waits in the spool of a gateway.
func SpoolEmpty(ctx context.Context, g *gateway.Gateway) (bool, error) {
	page, err := g.Metrics(ctx)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "ackproxy_dlq_spool_bytes{") {
			n, err := valueOf(line)
			return n == 0, err
		}
	}
	return false, fmt.Errorf("there is no metric of the spool")
}

func valueOf(line string) (float64, error) {
	fields := strings.Fields(line)
	return strconv.ParseFloat(fields[len(fields)-1], 64)
}

// Spooled are the ids of the letters in a spool's directory, and how many letters there are.
func Spooled(dir string) (ids map[string]bool, n int, err error) {
	ids = map[string]bool{}
	err = spool.Read(dir, func(_ string, e spool.Entry) error {
		l, err := letter.Decode(e.Data)
		if err == nil {
			ids[ID(l.Headers)] = true
			n++
		}
		return err
	})
	return ids, n, err
}

// ID is the dedupe id that the headers of a letter have.
func ID[H ~struct {
	Key   string
	Value []byte
}](headers []H) (id string) {
	for _, h := range headers {
		one := struct {
			Key   string
			Value []byte
		}(h)
		if one.Key == letter.HeaderID {
			id = string(one.Value)
		}
	}
	return id
}
