//go:build !linux

// Command bench measures ackproxy beside other proxies. It needs Linux: its own ends of the wire are made of epoll.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: it needs Linux")
	os.Exit(1)
}
