package host

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

func TestOutput(t *testing.T) {
	for _, c := range []struct{ printed, want string }{
		{"one\ntwo", `{"level":"info","message":"one"}|{"level":"info","message":"two"}`},
		{`{"@level":"warn","@message":"m","b":2,"a":"x","@timestamp":"t"}`, `{"level":"warn","message":"m a=x b=2"}`},
		{`{"@level":"fatal","@message":"m"}`, `{"level":"info","message":"m"}`},
		{`{"@message":1}`, `{"level":"info","message":"{\"@message\":1}"}`},
		{"\n  \n\n", ""},
		{"a\x1b[0mb\x00\tc\xff", `{"level":"info","message":"a�[0mb�\tc�"}`},
		{strings.Repeat("x", maxLine) + "y\nz", `{"level":"info","message":"` + strings.Repeat("x", maxLine) + ` …"}|{"level":"info","message":"z"}`},
	} {
		var log bytes.Buffer
		o := newOutput(zerolog.New(&log))
		for _, b := range []byte(c.printed) { // in the smallest pieces
			o.Write([]byte{b})
		}
		o.flush()
		if got := strings.ReplaceAll(strings.TrimSpace(log.String()), "\n", "|"); got != c.want {
			t.Errorf("%.60q: %.300s, want %.300s", c.printed, got, c.want)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	var log bytes.Buffer
	o := newOutput(zerolog.New(&log))
	now, slept := time.Unix(0, 0), 0
	o.filled = now
	o.now, o.sleep = func() time.Time { return now }, func(time.Duration) { slept++ }
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 10000 {
		o.Write(line)
	}
	if n := strings.Count(log.String(), "\n"); n != burstLines {
		t.Errorf("%d lines at once, want %d", n, burstLines)
	}
	if want := 10000 << 10 / gulp; slept != want-1 {
		t.Errorf("paused %d times in 10 MB, want %d", slept, want-1)
	}
	log.Reset()
	now = now.Add(lineEvery)
	o.Write([]byte("after\nand\n"))
	want := fmt.Sprintf(`{"level":"warn","lines":%d,"message":"the plugin printed more than is logged"}`, 10000-burstLines)
	if got := strings.Split(log.String(), "\n"); len(got) != 3 || got[0] != want || !strings.Contains(got[1], "after") {
		t.Errorf("%q, want first %s", got, want)
	}
	for range 1 << 20 {
		o.Write(line[:1000]) // a line without an end
	}
	if cap(o.line) > 2*maxLine {
		t.Errorf("%d bytes are kept", cap(o.line))
	}
}
