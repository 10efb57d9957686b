package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/demo"
)

// demoLine is the last line of demo -o json: these keys, in this order, and no others.
var demoLine = regexp.MustCompile(`^\{"records":2000,"deliveries":\d+,"acks":\{"accept":\d+,"release":\d+,"reject":\d+\},` +
	`"carriers":\{"share_fetch":\d+,"share_acknowledge":\d+\},"verdicts":\{"accepted":\d+,"refused":\d+,"unknown":\d+\},` +
	`"client":\{"accept":\d+,"release":\d+,"reject":\d+\},"unaudited":0,"invented":0,"escapes":0,"match":true\}$`)

func TestDemoOnce(t *testing.T) {
	var results [2]demo.Result
	for i := range results {
		var out, errs bytes.Buffer
		if status := execute([]string{"demo", "--once", "--records", "2000", "--seed", "5", "-o", "json"}, nil, &out, &errs); status != 0 {
			t.Fatalf("status %d\n%s%s", status, &out, &errs)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		last := lines[len(lines)-1]
		if !demoLine.MatchString(last) {
			t.Errorf("not as it must be: %s", last)
		}
		if errs.Len() > 0 {
			t.Errorf("standard error: %s", &errs)
		}
		if err := json.Unmarshal([]byte(last), &results[i]); err != nil {
			t.Fatal(err)
		}
	}
	r := results[0]
	if r.Acks.Accept == 0 || r.Acks.Release == 0 || r.Acks.Reject == 0 || r.Carriers.ShareFetch == 0 || r.Carriers.ShareAcknowledge == 0 {
		t.Errorf("all types and both carriers wanted: %+v", r)
	}
	if results[1].Acks != r.Acks || results[1].Deliveries != r.Deliveries {
		t.Errorf("one seed, two results:\n%+v\n%+v", r, results[1])
	}
}

// lost loses the audit's first acknowledgement, or says it twice.
type lost struct {
	to    io.Writer
	twice bool
	done  bool
}

func (l *lost) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		if !l.done && bytes.Contains(line, []byte(`"type":"share.ack"`)) {
			l.done = true
			if !l.twice {
				continue
			}
			l.to.Write(line)
		}
		l.to.Write(line)
	}
	return len(lines), nil
}

func TestDemoFaultsAreStatus1(t *testing.T) {
	for name, twice := range map[string]bool{"unaudited": false, "invented": true} {
		t.Run(name, func(t *testing.T) {
			cmd := newDemoCmd()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(io.Discard)
			err := runDemo(cmd, formatJSON, demo.Options{Records: 100, Members: 2, Brokers: 1, Once: true,
				Between: func(w io.Writer) io.Writer { return &lost{to: w, twice: twice} }})
			var e *exit
			if !errors.As(err, &e) || e.status != statusNo {
				t.Errorf("%v: status 1 wanted", err)
			}
			var r demo.Result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			if r.Match || (r.Unaudited > 0) == twice || (r.Invented > 0) != twice {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestDemoStatus(t *testing.T) {
	for _, c := range []struct {
		result demo.Result
		err    error
		want   int
	}{
		{demo.Result{Match: true}, nil, 0},
		{demo.Result{Escapes: 1}, nil, statusNo},
		{demo.Result{Match: true}, errors.New("stuck"), statusNo},
	} {
		err := demoStatus(c.result, c.err)
		var e *exit
		if got := errors.As(err, &e); got != (c.want != 0) || got && e.status != c.want {
			t.Errorf("%+v, %v: %v", c.result, c.err, err)
		}
	}
}

func TestDemoText(t *testing.T) {
	var out, errs bytes.Buffer
	if status := execute([]string{"demo", "--once", "--records", "50"}, nil, &out, &errs); status != 0 {
		t.Fatalf("status %d\n%s%s", status, &out, &errs)
	}
	if !strings.Contains(out.String(), "The audit matches") {
		t.Errorf("%s", &out)
	}
}

func TestDemoMisused(t *testing.T) {
	for _, args := range [][]string{
		{"--records", "0"}, {"--records", "-1"}, {"--records", "many"}, {"--members", "0"}, {"--members", "33"}, {"--brokers", "0"}, {"--brokers", "17"},
		{"--seed", "-1"}, {"-o", "yaml"}, {"--twice"}, {"now"},
	} {
		var out, errs bytes.Buffer
		if status := execute(append([]string{"demo"}, args...), nil, &out, &errs); status != statusUsage || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%v: status %d, %q, %q", args, status, &out, &errs)
		}
	}
}

func TestDemoHelp(t *testing.T) {
	var out bytes.Buffer
	if status := execute([]string{"demo", "-h"}, nil, &out, io.Discard); status != 0 || !strings.Contains(out.String(), "ackproxy demo --once") {
		t.Errorf("status %d: %s", status, &out)
	}
}
