// Package sdk makes a policy a plugin of ackproxy: a program of its own, which ackproxy starts and supervises. A whole plugin:
//
//	func main() {
//		sdk.Serve(func(config []byte) (policy.Policy, error) { return newPolicy(config) })
//	}
//
// The policy does not know that it lives in another process: it gets the request that a policy inside of ackproxy gets, its context carries
// the deadline, and its verdict is applied alike. What it prints on standard output or error, ackproxy logs. Plugins are not supported on
// Windows.
package sdk

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/policy"
)

// Serve serves the policy that open makes of its configuration (JSON; empty where there is none) until ackproxy ends the process or is gone.
// It never returns. An error of open refuses the configuration, and is what the operator reads.
//
// A policy that is a policy.Observer as well is shown what became of requests. One that has a method Dropped(n uint64) learns how many
// outcomes it was not shown. One that is a policy.EndpointPolicy as well is asked where clients find brokers. One that is an io.Closer is closed before the process ends; it has a second.
func Serve(open func(config []byte) (policy.Policy, error)) {
	serve(func(config []byte) (parts, error) {
		p, err := open(config)
		if err == nil && p == nil {
			err = fmt.Errorf("the plugin made no policy")
		}
		if err != nil {
			return parts{}, err
		}
		o, _ := p.(policy.Observer)
		e, _ := p.(policy.EndpointPolicy)
		return parts{whole: p, policy: p, observer: o, endpoints: e, name: p.Name()}, nil
	})
}

// ServeEndpoints is Serve for one who only says where clients find brokers.
func ServeEndpoints(open func(config []byte) (policy.EndpointPolicy, error)) {
	serve(func(config []byte) (parts, error) {
		p, err := open(config)
		if err == nil && p == nil {
			err = fmt.Errorf("the plugin made no policy")
		}
		if err != nil {
			return parts{}, err
		}
		return parts{whole: p, endpoints: p, name: p.Name()}, nil
	})
}

// ServeObserver is Serve for one who only watches. name is for logs.
func ServeObserver(name string, open func(config []byte) (policy.Observer, error)) {
	serve(func(config []byte) (parts, error) {
		o, err := open(config)
		if err == nil && o == nil {
			err = fmt.Errorf("the plugin made no observer")
		}
		return parts{whole: o, observer: o, name: name}, err
	})
}

// parts is what was opened.
type parts struct {
	whole     any
	policy    policy.Policy         // nil: decides nothing
	observer  policy.Observer       // nil: watches nothing
	endpoints policy.EndpointPolicy // nil: maps none
	name      string
}

func serve(open func([]byte) (parts, error)) {
	s := &server{open: open, stdout: os.Stdout, stderr: os.Stderr}
	if os.Getenv(wire.CookieKey) != "" { // else go-plugin says what this program is, and ends it
		outlive()
		go s.endWithHost(os.Stdin)
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		Plugins: goplugin.PluginSet{wire.Service: &service{server: s}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(wire.LargestMessage),
				grpc.InitialWindowSize(wire.StreamWindow), grpc.InitialConnWindowSize(wire.ConnWindow))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Name: "sdk", Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
	})
	s.close()
	os.Exit(0)
}

// outlive keeps the process from ending by signals that are meant for ackproxy: a service manager may send them to all processes of the service, and
// while ackproxy drains it still asks. They are not ignored, for that would be passed on to processes that the policy starts.
func outlive() { signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGHUP) }

// endWithHost ends the process when standard input does: ackproxy holds its other end, and is gone, however it died, or wants us to go.
func (s *server) endWithHost(stdin io.Reader) {
	io.Copy(io.Discard, stdin)
	s.close()
	os.Exit(0)
}
