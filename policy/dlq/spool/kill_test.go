package spool

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

const childDir = "ACKPROXY_SPOOL_TEST_DIR" // set in the process that is killed

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

// child appends numbers, says which are kept, and delivers some, until it is killed.
func child(dir string) {
	s, err := Open(dir, Options{MaxBytes: 1 << 30, SegmentBytes: 2000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	q, err := s.Queue("q")
	if err != nil {
		os.Exit(1)
	}
	start, _ := strconv.Atoi(os.Args[len(os.Args)-1])
	for i := start; ; i++ {
		if q.Append(context.Background(), fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i%500))) != nil {
			os.Exit(1)
		}
		fmt.Println("kept", i)
		if entries, err := q.Next(300); err == nil && i%3 == 0 {
			for _, e := range entries {
				fmt.Println("delivered", number(e))
			}
			if q.Done(entries) != nil {
				os.Exit(1)
			}
		}
	}
}

func number(e Entry) (n int) {
	fmt.Sscan(string(e.Data), &n)
	return n
}

// last is the last number that is kept: the process may have been killed before it could say so.
func last(t *testing.T, dir string, said int) int {
	t.Helper()
	if err := Read(dir, func(_ string, e Entry) error { said = max(said, number(e)); return nil }); err != nil {
		t.Fatal(err)
	}
	return said
}

// TestKill kills a process that appends and delivers, again and again: all that it said was kept is delivered, in order, if some of it twice.
func TestKill(t *testing.T) {
	dir, next := t.TempDir(), 1
	delivered := 0
	for range 15 {
		cmd := exec.Command(os.Args[0], strconv.Itoa(next))
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(5+rand.IntN(40))*time.Millisecond, func() { cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			if _, err := fmt.Sscanf(lines.Text(), "kept %d", &n); err == nil {
				next = n + 1
			} else if _, err := fmt.Sscanf(lines.Text(), "delivered %d", &n); err == nil {
				if n > delivered+1 {
					t.Fatalf("%d was delivered after %d", n, delivered)
				}
				delivered = max(delivered, n)
			} else {
				t.Fatal(lines.Text())
			}
		}
		kill.Stop()
		cmd.Wait() // killed
		next = last(t, dir, next-1) + 1
	}
	if delivered == 0 {
		t.Fatal("nothing was delivered")
	}
	s := open(t, dir, Options{})
	entries, err := queue(t, s, "q").Next(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n := number(e); n > delivered+1 {
			t.Fatalf("%d comes after %d", n, delivered)
		} else {
			delivered = max(delivered, n)
		}
	}
	if delivered != next-1 {
		t.Errorf("the last is %d, and %d was kept", delivered, next-1)
	}
}
