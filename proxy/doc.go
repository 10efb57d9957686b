// Package proxy carries Kafka connections from clients to brokers and back, looks at every frame's header, decodes the few
// messages that concern acknowledgements or carry addresses, and forwards everything else as it came.
//
// The walk of a request:
//
//	client ─► listener ─► conn: request loop ─┬─ opaque ───────────────► broker
//	                                          └─ share request: decode, remember ─► broker
//	client ◄──────── conn: response loop ◄─┬─ opaque ◄────────────────── broker
//	                                       └─ remembered: fix endpoints, observe ◄─
//
// server.go accepts and dials: one client connection is one broker connection for its whole life. conn.go runs the two loops, which
// share half.go: bytes are read into a pooled buffer that a parked direction does not hold, frames are looked at in place, and a run
// of frames that pass unchanged is one write. half_linux.go reads TCP with one system call a batch; half_conn.go reads any other
// net.Conn. request.go and response.go say what happens to each frame; what a response needs is decided with its request and
// remembered in pending.go, in order; keeps.go says what that takes. nodes.go knows where each broker is and which of our ports stands
// for it; endpoints.go rewrites the answers that carry addresses, scan.go walks those too large to hold. apiversions.go and sasl.go
// follow the two exchanges that change what may come next.
//
// The rules that never bend: bytes out are the bytes in unless that very message was changed; responses leave in request order, each
// checked against its correlation id; no address of a broker reaches a client; a side that closes is passed on at once.
package proxy
