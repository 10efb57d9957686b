package kafka

import (
	"os"
	"testing"
)

// TestProcessGroup: a child's own child ends with it.
func TestProcessGroup(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start("sh", []string{"-c", "sleep 1000 & echo $!; wait"}, ProcessOptions{Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	buf := make([]byte, 32)
	if _, err := r.Read(buf); err != nil { // both run
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Read(buf); n != 0 || err == nil { // the pipe ends with the last process that holds it
		t.Errorf("read %d, %v", n, err)
	}
}
