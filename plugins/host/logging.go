package host

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/rs/zerolog"
)

// chatter sends what go-plugin logs to log, at debug level: what matters of it, supervise says in its own words.
func chatter(log zerolog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&sink{log})
	return l
}

type sink struct{ log zerolog.Logger }

// Accept implements hclog.SinkAdapter.
func (s *sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	if level < hclog.Debug {
		return
	}
	e := s.log.Debug()
	for i := 0; i+1 < len(args); i += 2 {
		e = e.Str(fmt.Sprint(args[i]), fmt.Sprint(args[i+1]))
	}
	e.Msg(msg)
}
