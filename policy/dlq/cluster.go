package dlq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/internal/settings"
)

// Cluster is how to reach a Kafka cluster.
type Cluster struct {
	Bootstrap []string
	TLS       *TLS
	SASL      *SASL
}

// TLS says whom to trust, and who we are. The files are read for each connection, so that they can change: certificates end.
type TLS struct{ CA, Cert, Key string } // paths of PEM files; no CA: the system's

// SASL is who we are. The password's file is read for each login, so that it can change.
type SASL struct{ Mechanism, Username, PasswordFile string }

// The mechanisms.
const (
	mechanismPlain    = "PLAIN"
	mechanismScram256 = "SCRAM-SHA-256"
	mechanismScram512 = "SCRAM-SHA-512"
)

func (c *Cluster) read(r *reader) field {
	return func(path string, raw json.RawMessage) {
		r.object(path, raw, map[string]field{
			"bootstrap": r.texts(&c.Bootstrap),
			"tls": func(path string, raw json.RawMessage) {
				c.TLS = &TLS{}
				r.object(path, raw, map[string]field{"ca": r.text(&c.TLS.CA), "cert": r.text(&c.TLS.Cert), "key": r.text(&c.TLS.Key)})
			},
			"sasl": func(path string, raw json.RawMessage) {
				c.SASL = &SASL{}
				r.object(path, raw, map[string]field{
					"mechanism": r.choice(func(i int) {
						c.SASL.Mechanism = [...]string{mechanismPlain, mechanismScram256, mechanismScram512}[i]
					}, mechanismPlain, mechanismScram256, mechanismScram512),
					"username": r.text(&c.SASL.Username), "password_file": r.text(&c.SASL.PasswordFile)})
			},
		})
		c.check(r, path)
	}
}

func (c *Cluster) check(r *reader, path string) {
	if len(c.Bootstrap) == 0 && path != "cluster" { // check of Config reports that one, there or not
		r.missing(settings.Join(path, "bootstrap"), "it lists brokers as host:port")
	}
	for i, address := range c.Bootstrap {
		if problem, hint := addressProblem(address); problem != "" {
			r.Add(fmt.Sprintf("%s[%d]", settings.Join(path, "bootstrap"), i), problem, hint)
		}
	}
	if c.TLS != nil && (c.TLS.Cert == "") != (c.TLS.Key == "") {
		r.Add(settings.Join(path, "tls"), "cert and key belong together", "")
	}
	if s := c.SASL; s != nil {
		for _, f := range [...]struct{ key, value string }{{"mechanism", s.Mechanism}, {"username", s.Username}, {"password_file", s.PasswordFile}} {
			if f.value == "" {
				r.missing(settings.Join(path, "sasl."+f.key), "sasl needs it")
			}
		}
	}
}

// addressProblem is what is wrong with the address of a broker, and what to write instead; empty where nothing is.
func addressProblem(address string) (problem, hint string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" {
		return fmt.Sprintf("%q is not host:port", address), "write it as in kafka-1:9092 or [::1]:9092"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Sprintf("%q: the port %q is out of range", address, port), "write a port of 1 to 65535"
	}
	return "", ""
}

const (
	dialTimeout  = 5 * time.Second       // with the handshake
	retryBackoff = 50 * time.Millisecond // the first; it doubles
	maxBackoff   = time.Second
	metadataAge  = 100 * time.Millisecond // the least between two looks: a topic that was just made is wanted soon
)

// Options are what every client of the cluster has. The error is a *policy.ConfigError, whose key is below the cluster's: a file that cannot be
// read.
func (c *Cluster) Options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...), kgo.ClientID("ackproxy-dlq"), kgo.DialTimeout(dialTimeout), kgo.MetadataMinAge(metadataAge),
		kgo.DisableClientMetrics(), kgo.RetryBackoffFn(func(tries int) time.Duration { return min(retryBackoff<<min(tries, 6), maxBackoff) }),
	}
	if c.TLS != nil {
		config, err := c.TLS.config()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.Dialer(c.TLS.dialer(config)))
	}
	if c.SASL != nil {
		if _, err := c.SASL.password(); err != nil {
			return nil, err
		}
		opts = append(opts, c.SASL.option())
	}
	return opts, nil
}

// dialer connects with what the files say at that time. Where they cannot be read, as while somebody writes them, it is what they said last.
func (t *TLS) dialer(first *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	var last atomic.Pointer[tls.Config]
	last.Store(first)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if config, err := t.config(); err == nil {
			last.Store(config)
		}
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: last.Load()}
		return d.DialContext(ctx, network, address)
	}
}

func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := readFile("tls.ca", t.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &policy.ConfigError{Key: "tls.ca", Problem: "there is no certificate in " + t.CA, Hint: "name a file in PEM"}
		}
	}
	if t.Cert == "" {
		return config, nil
	}
	cert, err := readFile("tls.cert", t.Cert)
	if err != nil {
		return nil, err
	}
	key, err := readFile("tls.key", t.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &policy.ConfigError{Key: "tls.cert", Problem: t.Cert + " and " + t.Key + ": " + err.Error(), Hint: "name a pair of files in PEM"}
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// readFile reads the file that a key names.
func readFile(key, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &policy.ConfigError{Key: key, Problem: "the file cannot be read: " + err.Error()}
	}
	return b, nil
}

func (s *SASL) option() kgo.Opt {
	if s.Mechanism == mechanismPlain {
		return kgo.SASL(plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := s.password()
			return plain.Auth{User: s.Username, Pass: password}, err
		}))
	}
	auth := func(context.Context) (scram.Auth, error) {
		password, err := s.password()
		return scram.Auth{User: s.Username, Pass: password}, err
	}
	if s.Mechanism == mechanismScram256 {
		return kgo.SASL(scram.Sha256(auth))
	}
	return kgo.SASL(scram.Sha512(auth))
}

// password reads the file; a line end behind the password is not part of it.
func (s *SASL) password() (string, error) {
	b, err := readFile("sasl.password_file", s.PasswordFile)
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
