package config

import (
	"encoding"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"25s": 25 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "0": 0, "300ms": 300 * time.Millisecond,
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v, %v; want %v", text, time.Duration(d), err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "2d5", "-1s", "1d-1h", "1w", "106752d", "2d 5h"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q gave %v, want an error", text, time.Duration(d))
		}
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Second: "1m30s", 2 * time.Minute: "2m", 0: "0s"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "65536": 65536, "64KiB": 64 << 10, "100 MiB": 100 << 20, "1GiB": 1 << 30} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "1.5MiB", "MB", "5MB", "5kb", "5M", "5TiB", "-1", "9999999999GiB", "99999999999999999999"} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q gave %d, want an error", text, s)
		}
	}
	for s, want := range map[Size]string{100 * MiB: "100MiB", 1500: "1500", 2 * GiB: "2GiB", 0: "0"} {
		if got := s.String(); got != want {
			t.Errorf("%d is written %s, want %s", s, got, want)
		}
	}
}

// The variables that the env tags make are those that the paths promise, and each default is text that its own setting takes.
func TestSettings(t *testing.T) {
	d := Defaults()
	params, err := env.GetFieldParamsWithOptions(&d, env.Options{Prefix: Prefix, Environment: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	var tags, names []string
	for _, p := range params {
		if !p.Ignored {
			tags = append(tags, p.Key)
		}
	}
	for _, s := range Settings() {
		names = append(names, s.Env)
		if s.Default == "" {
			continue
		}
		c, r := Load(Sources{Environ: []string{s.Env + "=" + s.Default}})
		if len(r.Problems) > 0 || !reflect.DeepEqual(c, Defaults()) {
			t.Errorf("%s=%s: %v, %+v", s.Env, s.Default, lines(r.Problems), c)
		}
	}
	if !slices.Equal(tags, names) {
		t.Errorf("env tags make %v\npaths make    %v", tags, names)
	}
	if !slices.Contains(names, "ACKPROXY_LISTEN_BROKER_PORTS_BASE") || !slices.Contains(names, "ACKPROXY_PROTOCOL_TXN_SHARE_ACKNOWLEDGE_API_KEY") {
		t.Errorf("missing from %v", names)
	}
}

// Every value type reports what to write instead.
func TestHints(t *testing.T) {
	for _, v := range []encoding.TextUnmarshaler{new(Duration), new(Size), new(HostPort), new(ListenAddr), new(AdminAddr), new(Host), new(Pattern),
		new(Mode), new(UnknownAPIs), new(SASLv0), new(Arm), new(SinkType), new(Level), new(Format), new(Port), new(Count), new(APIKey)} {
		err := v.UnmarshalText([]byte("no such:value"))
		if err == nil {
			t.Errorf("%T takes anything", v)
			continue
		}
		if problem, hint := explain(err); problem == "" || hint == "" {
			t.Errorf("%T: problem %q, hint %q", v, problem, hint)
		}
	}
}
