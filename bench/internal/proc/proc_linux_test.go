package proc

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnProcess(t *testing.T) {
	before, err := CPUOf(nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ { // until the clock has moved
		now, err := CPUOf(map[string]int{"again": os.Getpid()})
		if err != nil {
			t.Fatal(err)
		}
		if now[Self] > before[Self] && now["again"] > before[Self] {
			break
		}
	}
	if kib, err := RSS(os.Getpid()); err != nil || kib < 500 {
		t.Errorf("%v KiB, %v", kib, err)
	}
	n, err := Descriptors(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if more, err := Descriptors(os.Getpid()); err != nil || more != n+1 {
		t.Errorf("%d descriptors after one more than %d, %v", more, n, err)
	}
}

// TestCounter needs the right to see tracepoints; without it NewCounter must say so.
func TestCounter(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := NewCounter(os.Getpid())
	if err != nil {
		if os.Geteuid() == 0 {
			t.Log(err) // a kernel without tracepoints
		}
		return
	}
	defer c.Close()
	for range 1000 {
		unix.Getppid()
	}
	if n, err := c.Count(); err != nil || n < 1000 {
		t.Errorf("%d calls, %v", n, err)
	}
}

func TestParseStrace(t *testing.T) {
	calls, err := parseStrace([]byte("    calls syscall\n--------- ----------------\n       12 recvmsg\n        3 sendto\n--------- ---\n       15 total\n"))
	if err != nil || len(calls) != 2 || calls["recvmsg"] != 12 || calls["sendto"] != 3 {
		t.Errorf("%v, %v", calls, err)
	}
	if _, err := parseStrace([]byte("nothing")); err == nil {
		t.Error("an empty table is no error")
	}
}

func TestMachine(t *testing.T) {
	if m := ReadMachine(2); m.Processors != 2 || m.Kernel == "" || m.MemoryMiB == 0 {
		t.Errorf("%+v", m)
	}
}
