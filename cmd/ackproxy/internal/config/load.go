package config

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Flag is a setting given on the command line.
type Flag struct {
	Name  string // "--listen"
	Path  string // "listen.bootstrap"
	Value string
}

// Sources is where settings come from, beside the defaults.
type Sources struct {
	File    string   // empty: none
	Environ []string // as os.Environ gives it
	Flags   []Flag
	Audit   []string // values of --audit; nil: not given

	Builtins map[string]Builtin // by name
	// Try starts a plugin and ends it again: how else could one know that it is one? It is called where nothing else is wrong; nil: never.
	Try func(Policy) error
}

// Load merges all sources and checks the outcome. The Config is usable when the Report has no Problems.
func Load(s Sources) (Config, Report) {
	c := Defaults()
	l := loader{config: &c, origins: map[string]origin{}, builtins: s.Builtins}
	if s.File != "" {
		l.report.Problems = readFile(s.File, &c, l.origins)
	}
	l.environment(s.Environ)
	for _, f := range s.Flags {
		l.set(f.Path, f.Value, origin{file: FromFlags, key: f.Name})
	}
	if s.Audit != nil {
		l.audit(s.Audit)
	}
	l.check()
	if s.Try != nil && len(l.report.Problems) == 0 {
		l.tryPlugins(s.Try)
	}
	l.report.sort()
	return c, l.report
}

type loader struct {
	config   *Config
	origins  map[string]origin
	builtins map[string]Builtin
	report   Report
}

func (l *loader) add(o origin, path, problem, hint string) {
	l.report.Problems = append(l.report.Problems, o.problem(path, problem, hint))
}

// environment applies the variables. One that no setting has is a warning: Kubernetes makes such variables of every Service's name.
func (l *loader) environment(environ []string) {
	known := map[string]string{}
	var names []string
	for _, s := range Settings() {
		known[s.Env] = s.Path
		names = append(names, s.Env)
	}
	vars := slices.Sorted(slices.Values(environ))
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, Prefix) {
			continue
		}
		path, ok := known[name]
		if !ok {
			o := origin{file: FromEnvironment, key: name}
			l.report.Warnings = append(l.report.Warnings, o.problem("", "no setting has this variable, it is ignored", envHint(name, value, names)))
		} else if value != "" {
			l.set(path, value, origin{file: FromEnvironment, key: name})
		}
	}
}

// ofService is the end of the name of a variable that Kubernetes makes of a Service's.
var ofService = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

func envHint(name, value string, names []string) string {
	if strings.Contains(value, "://") || ofService.MatchString(name) {
		return "Kubernetes sets it for a Service of that name; enableServiceLinks: false ends that"
	}
	best, _ := closest(name, names)
	return "the nearest is " + best
}

// set gives one setting a value, as the environment would.
func (l *loader) set(path, value string, o origin) {
	if value == "" {
		l.add(o, path, "has no value", "write one, or leave it out")
		return
	}
	err := env.ParseWithOptions(l.config, env.Options{Prefix: Prefix, Environment: map[string]string{envName(path): value}})
	if err == nil {
		maps.DeleteFunc(l.origins, func(at string, _ origin) bool { return strings.HasPrefix(at, path+"[") }) // a list of the file goes
		l.origins[path] = o
		return
	}
	var pe env.ParseError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	problem, hint := explain(err)
	l.add(o, path, problem, hint)
}

// audit replaces the sinks by those of the flags.
func (l *loader) audit(values []string) {
	o := origin{file: FromFlags, key: "--audit"}
	var sinks []Sink
	for _, v := range values {
		if v == "none" {
			if len(values) > 1 {
				l.add(o, "", "none stands beside other sinks", "give none alone, or leave it out")
			}
			continue
		}
		kind, path, _ := strings.Cut(v, ":")
		s := Sink{Path: path}
		if err := s.Type.UnmarshalText([]byte(kind)); err != nil {
			problem, _ := explain(err)
			l.add(o, "", problem, "write stdout, file:PATH or none")
			continue
		}
		sinks = append(sinks, s)
	}
	for i := range l.config.Audit.Sinks {
		delete(l.origins, sinkPath(i)) // of the file, whose sinks go
	}
	l.config.Audit.Sinks = sinks
	l.origins["audit.sinks"] = o
}
