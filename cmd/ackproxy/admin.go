package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminServer answers probes and scrapes. It owns its listener.
type adminServer struct {
	listener net.Listener
	http     http.Server
}

// newAdminServer serves on ln once serve is called.
func newAdminServer(ln net.Listener, a *app) *adminServer {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := errors.Join(a.server.Ready(), a.pluginsReady())
		if a.draining.Load() {
			err = errors.New("draining")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return &adminServer{listener: ln, http: http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 16,
	}}
}

// serve returns nil after close.
func (s *adminServer) serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the admin server: %w", err)
	}
	return nil
}

// close cuts open requests: a probe that hangs must not hold up the end.
func (s *adminServer) close() { s.http.Close() }
