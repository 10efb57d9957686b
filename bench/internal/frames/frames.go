// Package frames makes the requests and answers that the benchmark sends: valid frames of real APIs, of fixed sizes, whose only
// varying part is the correlation id.
package frames

import (
	"encoding/binary"
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
)

// Kind is a kind of exchange.
type Kind string

// The kinds.
const (
	Ack        Kind = "ack"        // ShareAcknowledge, 201 bytes answered by 65
	ShareFetch Kind = "sharefetch" // acknowledgements on a ShareFetch, answered by 100 records of 1 KiB
	Produce    Kind = "produce"    // Produce v12 with 1 MiB of records
	Fetch      Kind = "fetch"      // Fetch v17 answered by 1 MiB of records
)

// Kinds are all of them.
var Kinds = []Kind{Ack, ShareFetch, Produce, Fetch}

// Versions of the share APIs that pairs exist in. Released clients use 1 and above; 0 is for a proxy that knows nothing newer.
const (
	ShareVersion = 1
	ShareOldest  = 0
)

// Bytes from a frame's first to its correlation id.
const (
	RequestID  = 8
	ResponseID = 4
)

// Pair is one request with its answer, both with size prefix and correlation id 0. They are shared: whoever sets an id copies first.
type Pair struct {
	Key, Version      int16
	Request, Response []byte
}

// Name says what the pair is, "ShareAcknowledge v1".
func (p Pair) Name() string { return fmt.Sprintf("%s v%d", codec.Name(p.Key), p.Version) }

// Build makes the pair of a kind. The version counts for the share APIs only.
func Build(k Kind, shareVersion int16) (Pair, error) {
	switch k {
	case Ack:
		return ack(shareVersion), nil
	case ShareFetch:
		return shareFetch(shareVersion), nil
	case Produce:
		return produce(), nil
	case Fetch:
		return fetch(), nil
	}
	return Pair{}, fmt.Errorf("no such kind of exchange: %q", k)
}

// All are the pairs that the broker stand-in can be asked for.
func All() []Pair {
	return []Pair{ack(ShareVersion), ack(ShareOldest), shareFetch(ShareVersion), shareFetch(ShareOldest), produce(), fetch()}
}

const clientID = "orders-consumer-7"

// newRequest begins a frame with header version 2.
func newRequest(key, version int16) []byte {
	b := make([]byte, 4, 512)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 0, 0, byte(len(clientID)))
	b = append(b, clientID...)
	return append(b, 0)
}

// newResponse begins a frame with header version 1.
func newResponse() []byte { return make([]byte, 9, 512) }

// sized writes the size prefix.
func sized(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}
