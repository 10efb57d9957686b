package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/host"
	"github.com/ackproxy/ackproxy/policy"
	samples "github.com/ackproxy/ackproxy/policy/golden"
)

// trialReport is what plugins check says of one plugin.
type trialReport struct {
	Name          string   `json:"name"`
	Path          string   `json:"path"`
	OK            bool     `json:"ok"`
	StartMs       float64  `json:"start_ms"`
	Program       string   `json:"program,omitempty"` // what it calls itself
	Decides       bool     `json:"decides"`
	Observes      bool     `json:"observes"`
	MapsEndpoints bool     `json:"maps_endpoints"`
	NeedsFrame    bool     `json:"needs_frame"`
	BudgetMs      float64  `json:"budget_ms"`
	Requests      []tried  `json:"requests"`
	Observed      uint64   `json:"observed"`            // outcomes that it took
	Endpoints     string   `json:"endpoints,omitempty"` // of nodes 1 and 2, at proxy:19101 and proxy:19102 without it
	Problems      []string `json:"problems"`
}

// tried is what became of one request.
type tried struct {
	Request  string  `json:"request"`
	Carrier  string  `json:"carrier"`
	Rounds   int     `json:"rounds"`
	Decided  string  `json:"decided"`
	MedianMs float64 `json:"median_ms"`
	MaxMs    float64 `json:"max_ms"`
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *trialReport) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *trialReport) declared(p *host.Plugin) {
	d := p.Declared()
	r.Program, r.Decides, r.Observes, r.MapsEndpoints = d.Program, p.Decides(), p.Observes(), p.MapsEndpoints()
	r.NeedsFrame, r.BudgetMs = d.NeedsFrame, milliseconds(d.Budget)
}

func (t *trial) topicName(codec.UUID) (string, bool) { return t.topic, true }

// decisions asks about the golden requests as the proxy does, through a chain. A request that fails is not asked about again.
func (t *trial) decisions(ctx context.Context, r *trialReport, p *host.Plugin) {
	chain, err := policy.NewChain(policy.Member{Policy: p, Timeout: t.timeout})
	if err != nil {
		r.problem("%v", err)
		return
	}
	for _, g := range samples.Requests() {
		if asked, err := policy.Asked(g.Request); err != nil || len(asked) == 0 {
			continue // it closes a session, and is nothing to decide about
		}
		one := tried{Request: g.Name, Carrier: g.Request.Carrier.String()}
		var took []time.Duration
		for one.Rounds < t.rounds {
			d := chain.Decide(ctx, g.Request, t.topicName)
			if len(d.Trail) == 0 {
				break // the command was ended
			}
			step := d.Trail[0]
			one.Rounds++
			took = append(took, step.Took)
			one.Decided = describe(d)
			if step.Err != nil {
				one.Decided = "failed"
				r.problem("%s, round %d: %v", g.Name, one.Rounds, step.Err)
				break
			}
		}
		if len(took) > 0 {
			slices.Sort(took)
			one.MedianMs, one.MaxMs = milliseconds(took[len(took)/2]), milliseconds(took[len(took)-1])
		}
		r.Requests = append(r.Requests, one)
	}
}

var kinds = [...]string{"gap", "accept", "release", "reject", "renew"}

func kind(k int8) string {
	if k >= 0 && int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprint("type ", k)
}

// describe says in a few words what is done with a request.
func describe(d *policy.Decision) string {
	var words []string
	for _, p := range d.Partitions {
		for _, x := range p.Pieces {
			where := fmt.Sprintf("%s/%d %d-%d", p.Topic, p.Index, x.First, x.Last)
			switch {
			case x.Withheld:
				words = append(words, fmt.Sprintf("%s: %s withheld, %d", where, kind(x.Asked), x.ErrorCode))
			case x.Forwarded != x.Asked:
				words = append(words, fmt.Sprintf("%s: %s becomes %s", where, kind(x.Asked), kind(x.Forwarded)))
			}
		}
	}
	for _, e := range d.Replies {
		words = append(words, fmt.Sprintf("the answer gets error %d", e.ErrorCode))
	}
	if d.DelayForward > 0 || d.DelayReply > 0 {
		words = append(words, fmt.Sprintf("delayed %v, its answer %v", d.DelayForward, d.DelayReply))
	}
	if d.Close != policy.CloseNever {
		words = append(words, "the connection is closed")
	}
	if len(words) == 0 {
		return "forward"
	}
	const most = 5
	if len(words) > most {
		words = append(words[:most], fmt.Sprintf("and %d more", len(words)-most))
	}
	return strings.Join(words, "; ")
}

// outcomes shows each request as one that the broker accepted.
func (t *trial) outcomes(ctx context.Context, r *trialReport, p *host.Plugin) {
	all := samples.Requests()
	for _, g := range all {
		o := &policy.Outcome{Request: *g.Request, Reply: policy.Reply{State: policy.Answered, Received: g.Request.Received.Add(time.Millisecond)}}
		o.Retain()
		p.Observe(o)
		o.Release()
	}
	late := time.NewTimer(5 * time.Second)
	defer late.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for r.Observed = p.Stats().Observed; r.Observed < uint64(len(all)); r.Observed = p.Stats().Observed {
		select {
		case <-look.C:
			continue
		case <-late.C:
		case <-ctx.Done():
		}
		r.problem("it took %d of %d outcomes within 5 s", r.Observed, len(all))
		return
	}
}

// endpoints asks for the client of the golden requests.
func (t *trial) endpoints(ctx context.Context, r *trialReport, p *host.Plugin) {
	nodes := []policy.Node{
		{ID: 1, Host: "proxy", Port: 19101, Upstream: "kafka-1.example.com:9092"}, {ID: 2, Host: "proxy", Port: 19102, Upstream: "kafka-2.example.com:9092"},
	}
	g := samples.Requests()[0].Request
	m := policy.EndpointMember{Policy: p, Timeout: t.timeout}
	table, err := m.Ask(ctx, &policy.Client{Conn: g.Conn, Principal: g.Principal, ClientID: string(g.ClientID), Software: g.Software}, nodes)
	if err != nil {
		r.problem("endpoints: %v", err)
		return
	}
	var told []string
	for _, n := range nodes {
		e, _ := table.Of(n.ID, policy.Endpoint{Host: n.Host, Port: n.Port})
		told = append(told, fmt.Sprintf("%d is at %v", n.ID, e))
	}
	r.Endpoints = strings.Join(told, ", ")
}

func (r *trialReport) print(w io.Writer, format outputFormat) error {
	if format == formatJSON {
		return writeJSON(w, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Name, r.Path)
	if r.Program != "" {
		var does []string
		for what, yes := range map[string]bool{"decides": r.Decides, "observes": r.Observes, "maps endpoints": r.MapsEndpoints} {
			if yes {
				does = append(does, what)
			}
		}
		slices.Sort(does)
		fmt.Fprintf(&b, "  started in %.0f ms as %s: %s; budget %g ms\n", r.StartMs, r.Program, strings.Join(does, ", "), r.BudgetMs)
	}
	for _, q := range r.Requests {
		fmt.Fprintf(&b, "  %-17s  %-30s %s (%d rounds: median %.3f ms, max %.3f ms)\n", q.Carrier, q.Request, q.Decided, q.Rounds, q.MedianMs, q.MaxMs)
	}
	if r.Observes {
		fmt.Fprintf(&b, "  %d outcomes taken\n", r.Observed)
	}
	if r.Endpoints != "" {
		fmt.Fprintf(&b, "  endpoints: %s\n", r.Endpoints)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "  FAILED: %s\n", p)
	}
	if r.OK {
		b.WriteString("  ok\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
