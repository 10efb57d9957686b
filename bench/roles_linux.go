package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ackproxy/ackproxy/bench/internal/epoll"
	"github.com/ackproxy/ackproxy/bench/internal/load"
	"github.com/ackproxy/ackproxy/bench/internal/standin"
)

// loadRole is the load generator: its Spec is the first line of standard input, its Result the last of standard output. Between them it
// prints a word for each gate, and waits for a line.
func loadRole(context.Context, []string) error {
	if err := epoll.Claim(); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var spec load.Spec
	if err := json.Unmarshal(line, &spec); err != nil {
		return err
	}
	r, err := load.Run(spec, func(word string) error {
		fmt.Println(word)
		_, err := in.ReadString('\n')
		return err
	})
	if err != nil {
		r = load.Result{Error: err.Error()}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// generate runs a load generator to its end. gate is called with each of its words; the generator waits meanwhile. It may be nil.
func generate(ctx context.Context, spec load.Spec, gate func(word string) error) (r load.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, spec.Warm+spec.Run+2*time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, "_load")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return r, err
	}
	talkErr := json.NewEncoder(stdin).Encode(spec)
	if talkErr == nil {
		talkErr = talk(stdin, stdout, gate, &r)
	}
	stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	err = errors.Join(cmd.Wait(), talkErr)
	switch {
	case err != nil:
		return r, fmt.Errorf("load generator: %w %s", err, strings.TrimSpace(complaints.String()))
	case r.Error != "":
		return r, fmt.Errorf("load generator: %s", r.Error)
	}
	return r, nil
}

// talk is the conversation after the Spec.
func talk(stdin io.Writer, stdout io.Reader, gate func(string) error, r *load.Result) error {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "{") {
			return json.Unmarshal([]byte(line), r)
		}
		if gate != nil {
			if err := gate(strings.TrimSpace(line)); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(stdin); err != nil {
			return err
		}
	}
}

// brokerRole is the broker stand-in, on the ports of its arguments. Connections that are cut are no news: peers are killed.
func brokerRole(_ context.Context, args []string) error {
	var ports []uint16
	for _, a := range args {
		p, err := strconv.ParseUint(a, 10, 16)
		if err != nil {
			return err
		}
		ports = append(ports, uint16(p))
	}
	if err := epoll.Claim(); err != nil {
		return err
	}
	return standin.Run(ports, func() {}, func(err error) {
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			fmt.Fprintln(os.Stderr, err)
		}
	})
}

// relayRole is the least that a relay in Go is: two io.Copy a connection, which the standard library turns into splice.
func relayRole(_ context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("_relay LISTEN UPSTREAM")
	}
	if err := epoll.RaiseDescriptorLimit(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go relay(client.(*net.TCPConn), args[1])
	}
}

func relay(client *net.TCPConn, upstream string) {
	defer client.Close()
	c, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	broker := c.(*net.TCPConn)
	defer broker.Close()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(broker, client)
		broker.CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(client, broker)
	client.CloseWrite()
	<-done
}
