package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/plugins/host"
	"github.com/ackproxy/ackproxy/policy"
)

// failureModes are what the values of on_failure stand for.
var failureModes = map[config.OnFailure]policy.FailureMode{
	config.OnFailureForward: policy.FailForward, config.OnFailureRespond: policy.FailRespond, config.OnFailureClose: policy.FailClose,
}

// onFailure is what is done when a policy fails.
func onFailure(p config.Policy) config.OnFailure {
	return cmp.Or(p.OnFailure, builtins[p.Builtin].failure, config.OnFailureForward)
}

// plugin is a policy in a process of its own.
type plugin struct {
	*host.Plugin
	needed bool // without it requests are not forwarded as they come
}

// policies are the configured ones by what they do, each in the order of the configuration.
type policies struct {
	chain     *policy.Chain // nil: nobody decides
	observers []policy.Observer
	endpoints []policy.EndpointMember
}

// notStarted says that a policy could not be started.
type notStarted struct {
	policy int // its place in the configuration
	err    error
}

// Error implements error.
func (n *notStarted) Error() string { return n.err.Error() }

// Unwrap is the cause.
func (n *notStarted) Unwrap() error { return n.err }

// startPolicies opens and starts the configured policies.
func (a *app) startPolicies(ctx context.Context) (all policies, err error) {
	var members []policy.Member
	for i, p := range a.config.Policies {
		o, err := a.open(ctx, p)
		if err != nil {
			return all, &notStarted{i, err}
		}
		if o.policy != nil {
			members = append(members, policy.Member{Policy: o.policy, OnFailure: failureModes[onFailure(p)], Timeout: time.Duration(p.Timeout)})
		}
		if o.observer != nil {
			all.observers = append(all.observers, o.observer)
		}
		if o.maps != nil {
			all.endpoints = append(all.endpoints, policy.EndpointMember{Policy: o.maps, Timeout: time.Duration(p.Timeout)})
		}
	}
	if len(members) > 0 {
		if all.chain, err = policy.NewChain(members...); err != nil {
			return all, err
		}
	}
	return all, a.metrics.Register(pluginCollector(a.plugins))
}

// open makes a policy what it is to be. closePolicies ends it.
func (a *app) open(ctx context.Context, p config.Policy) (o opened, err error) {
	if p.Builtin == "" {
		return a.startPlugin(ctx, p)
	}
	if o, err = builtins[p.Builtin].open(a, p.Name, p.Config); err != nil {
		return o, fmt.Errorf("policy %s: %w", p.Name, err)
	}
	if c, ok := o.policy.(io.Closer); ok {
		a.closers = append(a.closers, c)
	}
	return o, nil
}

func (a *app) startPlugin(ctx context.Context, p config.Policy) (o opened, err error) {
	spec := p.Spec(readVersion().Version)
	spec.TopicName = func(id codec.UUID) (string, bool) { return a.server.TopicName(id) }
	running, err := host.Start(ctx, spec, a.log)
	if err != nil {
		return o, err
	}
	a.plugins = append(a.plugins, plugin{running, onFailure(p) != config.OnFailureForward})
	if running.Decides() {
		o.policy = running
	}
	if running.Observes() {
		o.observer = running
	}
	if running.MapsEndpoints() {
		o.maps = running
	}
	return o, nil
}

// pluginsReady is nil when every plugin runs without which requests are not forwarded as they come.
func (a *app) pluginsReady() error {
	var errs []error
	for _, p := range a.plugins {
		if !p.needed {
			continue
		}
		if err := p.Ready(); err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", p.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// closePolicies ends all plugins and built-in policies, side by side.
func (a *app) closePolicies() {
	var all sync.WaitGroup
	for _, p := range a.plugins {
		all.Go(func() {
			if err := p.Close(); err != nil {
				a.log.Warn().Err(err).Str("plugin", p.Name()).Msg("a plugin's files are left")
			}
		})
	}
	for _, c := range a.closers {
		all.Go(func() {
			if err := c.Close(); err != nil {
				a.log.Error().Err(err).Msg("a policy did not end well")
			}
		})
	}
	all.Wait()
}
