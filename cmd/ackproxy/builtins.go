package main

import (
	"context"
	"errors"
	"time"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/audit"
	"github.com/ackproxy/ackproxy/policy/dlq"
	"github.com/ackproxy/ackproxy/policy/endpoints"
)

// builtin is a policy of ackproxy's own. One whose open is nil is not built yet.
type builtin struct {
	check   func(p *config.Policy, state string) error // *policy.ConfigError, joined; starts nothing
	warn    func(p *config.Policy, c *config.Config) error
	decides bool
	failure config.OnFailure // where the configuration says nothing; empty: forward
	timeout time.Duration    // the least that the configuration may say
	open    func(a *app, name string, config []byte) (opened, error)
}

// opened is what a built-in policy is, once it is opened. What is an io.Closer is closed at the end.
type opened struct {
	policy   policy.Policy
	observer policy.Observer
	maps     policy.EndpointPolicy
}

// builtins are the built-in policies by name. A dead-letter policy that fails lets no Reject pass, unless it is told to.
var builtins = map[string]builtin{
	"audit":     {check: checkAudit, open: openAudit},
	"chaos":     {decides: true},
	"dlq":       {check: checkDLQ, warn: warnDLQ, decides: true, failure: config.OnFailureRespond, timeout: dlq.LeastTimeout, open: openDLQ},
	"endpoints": {check: checkEndpoints, open: openEndpoints},
}

// checks are what the configuration needs of the built-in policies.
func checks() map[string]config.Builtin {
	all := map[string]config.Builtin{}
	for name, b := range builtins {
		all[name] = config.Builtin{Check: b.check, Warn: b.warn, Decides: b.decides, Timeout: b.timeout}
	}
	return all
}

func checkAudit(p *config.Policy, _ string) error {
	_, err := audit.ReadConfig(p.Config)
	return err
}

// openAudit makes a further audit log. Its metrics have a name that the log of the section audit cannot have.
func openAudit(a *app, name string, config []byte) (opened, error) {
	sinks, err := audit.ReadConfig(config)
	if err != nil {
		return opened{}, err
	}
	l := &auditLog{name: "policies." + name, sinks: sinks}
	a.logs = append(a.logs, l)
	return opened{observer: l}, nil
}

func checkEndpoints(p *config.Policy, _ string) error {
	_, err := endpoints.New(p.Name, p.Config)
	return err
}

func openEndpoints(_ *app, name string, config []byte) (opened, error) {
	p, err := endpoints.New(name, config)
	if err != nil {
		return opened{}, err
	}
	return opened{maps: p}, nil
}

func checkDLQ(p *config.Policy, state string) error {
	c, err := dlq.Parse(p.Config)
	if err != nil {
		return err
	}
	return errors.Join(c.CheckState(state), c.CheckClients())
}

// warnDLQ points out that no dead letter would have a payload.
func warnDLQ(p *config.Policy, c *config.Config) error {
	parsed, err := dlq.Parse(p.Config)
	if err != nil || parsed.Source != nil || c.Protocol.KeepRecords > 0 {
		return err
	}
	return &policy.ConfigError{Problem: "protocol.keep_records is 0 and there is no source: every dead letter will be without its payload",
		Hint: "set keep_records, or name the source"}
}

// openDLQ opens the dead-letter policy, which is its own observer.
func openDLQ(a *app, name string, config []byte) (opened, error) {
	p, err := dlq.New(context.Background(), name, config, dlq.Deps{StateDir: a.config.State.Dir, Metrics: a.metrics, Transactions: true, Deliveries: true,
		Notify: func(text string) { a.log.Warn().Str("policy", name).Msg(text) }})
	if err != nil {
		return opened{}, err
	}
	return opened{policy: p, observer: p}, nil
}
