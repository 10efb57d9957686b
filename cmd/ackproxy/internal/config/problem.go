package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The values of Problem.File for what does not come from a file.
const (
	FromEnvironment = "environment"
	FromFlags       = "flags"
)

// Problem is one thing that is wrong, where, and what to write instead.
type Problem struct {
	File    string `json:"file"`   // path as it was given, or FromEnvironment, or FromFlags
	Line    int    `json:"line"`   // from 1; 0 where there is none
	Column  int    `json:"column"` // from 1; 0 where there is none
	Key     string `json:"key"`    // "listen.broker_ports.base", "ACKPROXY_LISTEN_MODE", "--listen"
	Problem string `json:"problem"`
	Hint    string `json:"hint"`
}

// String is the problem on one line: file:line:column: key: what is wrong (what to write instead).
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	b.WriteString(": " + p.Problem)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Report is all that was found while loading. A warning stops nothing.
type Report struct {
	Problems []Problem
	Warnings []Problem
	Policies []string // where each policy is, as a Problem tells it: "ackproxy.yaml:7:5: policies[0]"
}

// sort orders a report as a reader goes through the file; flags and environment come after.
func (r *Report) sort() {
	byPlace := func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank(a.File), rank(b.File)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	}
	slices.SortStableFunc(r.Problems, byPlace)
	slices.SortStableFunc(r.Warnings, byPlace)
}

func rank(file string) int {
	switch file {
	case FromEnvironment:
		return 1
	case FromFlags:
		return 2
	}
	return 0
}

// origin is where a setting got its value: a position in a file, a variable, a flag. The zero origin is a default.
type origin struct {
	file         string
	line, column int
	key          string // what to call the setting there; empty: its path
}

func (o origin) problem(path, problem, hint string) Problem {
	key := cmp.Or(o.key, path)
	return Problem{File: cmp.Or(o.file, "defaults"), Line: o.line, Column: o.column, Key: key, Problem: problem, Hint: hint}
}

// badValue is a value that a setting does not take. It is what every value type returns.
type badValue struct{ problem, hint string }

// Error is the problem with its hint.
func (e *badValue) Error() string { return e.problem + " (" + e.hint + ")" }

func bad(hint, format string, args ...any) error {
	return &badValue{problem: fmt.Sprintf(format, args...), hint: hint}
}

// explain takes an error of a value apart into problem and hint.
func explain(err error) (problem, hint string) {
	var b *badValue
	if errors.As(err, &b) {
		return b.problem, b.hint
	}
	return err.Error(), ""
}
