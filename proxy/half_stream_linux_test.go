package proxy

import (
	"net"
	"runtime"
	"testing"
	"weak"
)

// TestReadForgets: what was read into is free once it is read, and not when the next bytes come.
func TestReadForgets(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	out, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := out.Write([]byte("bytes")); err != nil {
		t.Fatal(err)
	}
	raw, err := in.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	q := new(inq)
	large := new([1 << 20]byte)
	left := weak.Make(large)
	if err := raw.Read(func(fd uintptr) bool {
		n, _, _ := q.recv(int(fd), large[:])
		return n > 0
	}); err != nil {
		t.Fatal(err)
	}
	large = nil
	if runtime.GC(); left.Value() != nil {
		t.Error("in use still")
	}
	runtime.KeepAlive(q)
}
