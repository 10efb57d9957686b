package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/codec"
)

func init() { zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" }

// isTerminal says whether w is a terminal.
func isTerminal(w io.Writer) bool {
	if p, ok := w.(*printer); ok {
		w = p.w
	}
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// newLogger logs to w: text for a person at a terminal, JSON for everyone else, unless the format is given.
func newLogger(w io.Writer, c config.Log) zerolog.Logger {
	terminal := isTerminal(w)
	if c.Format == config.FormatText || c.Format == config.FormatAuto && terminal {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !terminal || os.Getenv("NO_COLOR") != "", TimeFormat: time.TimeOnly}
	}
	level, err := zerolog.ParseLevel(string(c.Level))
	if err != nil {
		level = zerolog.InfoLevel // config lets no other through
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// announce logs where the proxy listens and what it does with what passes.
func (a *app) announce() {
	for _, l := range a.server.Listeners() {
		a.log.Info().Str("listener", l.Name).Str("address", l.Addr).Str("upstream", l.Upstream).
			Msg(fmt.Sprintf("listening on %s for %s", l.Addr, leadsTo(l.Name)))
	}
	if a.admin != nil {
		a.log.Info().Str("listener", "admin").Str("address", a.admin.listener.Addr().String()).Msg("listening for /livez, /readyz and /metrics")
	}
	for _, p := range a.config.Policies {
		a.log.Info().Str("policy", p.Name).Str("program", cmp.Or(p.Plugin.Path, p.Builtin)).Msg("policy in use")
	}
	c := coverage(a.config)
	a.log.Info().Str("audited", c.audited).Str("armed", c.armed).Str("hidden", c.hidden).Str("passed", c.passed).
		Str("version", readVersion().Version).Msg("what is audited, armed, hidden and passed")
}

func leadsTo(listener string) string {
	if id, ok := strings.CutPrefix(listener, "broker-"); ok {
		return "broker " + id
	}
	return "any bootstrap broker"
}

// seen says in words what the proxy does with which messages.
type seen struct{ audited, armed, hidden, passed string }

func coverage(c config.Config) seen {
	txn := c.Protocol.TxnShareAcknowledge
	name := fmt.Sprintf("TxnShareAcknowledge as key %d", txn.APIKey)
	s := seen{
		audited: "ShareFetch, ShareAcknowledge, AddRaftVoter, and TxnShareAcknowledge where armed; to " + sinkNames(c.Audit.Sinks),
		passed:  "everything else as it comes, but for broker addresses in answers",
	}
	switch txn.Arm {
	case "always":
		s.armed = name + ", always: for test rigs"
	case "never":
		s.armed = "nothing: TxnShareAcknowledge is never armed"
	default:
		s.armed = name + ", where a broker lists the key and has share.version 3 or more"
	}
	s.hidden = hiddenKeys(c)
	if c.Protocol.UnknownAPIs == config.UnknownPass {
		s.passed += "; APIs that this version does not know as well"
	}
	return s
}

// hiddenKeys says which keys are taken out of ApiVersions answers: those that may carry acknowledgements that could not be read.
func hiddenKeys(c config.Config) string {
	txn := c.Protocol.TxnShareAcknowledge
	var keys []string
	if txn.APIKey != 95 {
		keys = append(keys, "key 95")
	}
	if int16(txn.APIKey) != codec.KeyAddRaftVoter && txn.Arm != "always" {
		keys = append(keys, fmt.Sprintf("key %d where not armed", txn.APIKey))
	}
	if c.Protocol.UnknownAPIs == config.UnknownHide {
		keys = append(keys, "other APIs that this version does not know")
	}
	return strings.Join(append(keys, "newer versions of what must be read"), ", ")
}

func sinkNames(sinks []config.Sink) string {
	var names []string
	for _, s := range sinks {
		names = append(names, s.String())
	}
	if len(names) == 0 {
		return "metrics only"
	}
	return strings.Join(names, ", ")
}
