package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackproxy/ackproxy/policy"
)

// Further is an audit log of its own, beside that of the proxy: in process, or in a plugin.
type Further struct{ *Auditor }

var _ policy.Observer = Further{}

// OpenFiles opens a further audit log with the sinks of its configuration, as ReadConfig reads them; they take the place of those in cfg. All
// are files: whoever calls this has no standard output of its own.
func OpenFiles(config []byte, cfg Config) (Further, error) {
	sinks, err := ReadConfig(config)
	if err != nil {
		return Further{}, err
	}
	var mistakes []error
	for i, s := range sinks {
		if s.Type == Stdout {
			mistakes = append(mistakes, &policy.ConfigError{
				Key: fmt.Sprintf("sinks[%d].type", i), Problem: "standard output is somebody else's here", Hint: "write {type: file, path: …}"})
		}
	}
	if len(mistakes) > 0 {
		return Further{}, errors.Join(mistakes...)
	}
	cfg.Sinks = sinks
	a, err := New(cfg)
	return Further{a}, err
}

// Close writes what is queued. Sinks that do not take it have 5 seconds.
func (f Further) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f.Auditor.Close(ctx)
}

// Dropped logs that n outcomes never came here.
func (f Further) Dropped(n uint64) { f.Control("missed", Field{"outcomes", n}) }
