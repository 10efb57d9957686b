//go:build unix

package spool

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestHangingDisk: who makes a queue may wait for the disk, and nobody waits for them. The disk that hangs is a FIFO in the place of the
// queue's position: opening it waits for a writer.
func TestHangingDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	other := queue(t, s, "@other")
	appendAll(t, other, "a")
	slow := queueDir(dir, "@slow")
	if err := os.Mkdir(slow, dirMode); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(slow, positionFile)
	if err := syscall.Mkfifo(pipe, fileMode); err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() { _, err := s.Queue("@slow"); made <- err }()
	for s.making.TryLock() { // until it is being made, which ends no sooner than somebody writes to the FIFO
		s.making.Unlock()
		runtime.Gosched()
	}
	looked := make(chan bool, 1)
	go func() {
		again, err := s.Queue("@other")
		bytes, _ := s.Size()
		looked <- again == other && err == nil && s.Waiting("@other") && !s.Waiting("@slow") && bytes > 0
	}()
	select {
	case ok := <-looked:
		if !ok {
			t.Error("the other queue is not as it was")
		}
	case <-time.After(time.Minute):
		t.Error("all wait for the queue that is being made")
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	<-made
}
