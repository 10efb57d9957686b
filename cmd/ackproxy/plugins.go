package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/plugins/host"
	"github.com/ackproxy/ackproxy/policy"
)

// failureModes are what the values of on_failure stand for.
var failureModes = map[config.OnFailure]policy.FailureMode{
	"": policy.FailForward, config.OnFailureForward: policy.FailForward,
	config.OnFailureRespond: policy.FailRespond, config.OnFailureClose: policy.FailClose,
}

// startPlugins starts the configured plugins, and returns the chain of those that decide, nil where none does, and those that observe.
func (a *app) startPlugins() (*policy.Chain, []policy.Observer, error) {
	var members []policy.Member
	var observers []policy.Observer
	for _, p := range a.config.Policies {
		plugin, err := host.Start(context.Background(), p.Spec(readVersion().Version), a.log)
		if err != nil {
			return nil, nil, err
		}
		a.plugins = append(a.plugins, plugin)
		if plugin.Decides() {
			members = append(members, policy.Member{Policy: plugin, OnFailure: failureModes[p.OnFailure], Timeout: time.Duration(p.Timeout)})
		}
		if plugin.Observes() {
			observers = append(observers, plugin)
		}
	}
	if len(members) == 0 {
		return nil, observers, nil
	}
	chain, err := policy.NewChain(members...)
	return chain, observers, err
}

// pluginsReady is nil when every plugin runs without which requests are not forwarded as they come.
func (a *app) pluginsReady() error {
	var errs []error
	for i, p := range a.plugins {
		if failureModes[a.config.Policies[i].OnFailure] == policy.FailForward {
			continue
		}
		if err := p.Ready(); err != nil {
			errs = append(errs, fmt.Errorf("policy %s: %w", p.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// closePlugins ends all plugins, side by side.
func (a *app) closePlugins() {
	var all sync.WaitGroup
	for _, p := range a.plugins {
		all.Go(func() {
			if err := p.Close(); err != nil {
				a.log.Warn().Err(err).Str("plugin", p.Name()).Msg("a plugin's files are left")
			}
		})
	}
	all.Wait()
}
