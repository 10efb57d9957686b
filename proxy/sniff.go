package proxy

import (
	"bytes"
	"fmt"
)

// foreign is what other protocols start with: users point them at a Kafka port by mistake. Four bytes are enough to tell, and as a
// size prefix they would be above 200 MB.
var foreign = []struct {
	start []byte
	kind  string // the label
	what  string // for people
}{
	{[]byte{0x16, 0x03}, "tls", "TLS ClientHello on a plaintext listener (use SASL_PLAINTEXT or PLAINTEXT here, or terminate TLS in front)"},
	{[]byte{0x15, 0x03}, "tls", "TLS alert: the other side expects TLS"},
	{[]byte("GET "), "http", "HTTP request"}, {[]byte("POST"), "http", "HTTP request"}, {[]byte("PUT "), "http", "HTTP request"},
	{[]byte("HEAD"), "http", "HTTP request"}, {[]byte("OPTI"), "http", "HTTP request"}, {[]byte("DELE"), "http", "HTTP request"},
	{[]byte("PATC"), "http", "HTTP request"}, {[]byte("CONN"), "http", "HTTP request"}, {[]byte("PRI "), "http", "HTTP/2 request"},
	{[]byte("HTTP"), "http", "HTTP response"},
	{[]byte("PROX"), "proxy", "PROXY protocol header but it is not enabled on this listener"},
	{[]byte("\r\n\r\n"), "proxy", "PROXY protocol header but it is not enabled on this listener"},
	{[]byte("SSH-"), "ssh", "SSH"},
}

// notKafka is an error that says which protocol a peer speaks instead.
type notKafka struct {
	kind, what string
	from       side
}

// Error says what a peer speaks, and which one.
func (e *notKafka) Error() string {
	return fmt.Sprintf("%v: %s, from the %s", errNotKafka, e.what, e.from)
}

// Unwrap is the error by which the end is counted.
func (e *notKafka) Unwrap() error { return errNotKafka }

// sniff looks at the first four bytes that a peer sent.
func sniff(first []byte, from side) error {
	for _, f := range foreign {
		if bytes.HasPrefix(first, f.start) {
			return &notKafka{f.kind, f.what, from}
		}
	}
	return nil
}
