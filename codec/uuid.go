package codec

import (
	"encoding/base64"
	"encoding/hex"
)

// UUID is a topic or directory id, most significant byte first.
type UUID [16]byte

// String is Kafka's own form of it: 22 characters of base64url without padding.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// Text36 is the form of RFC 4122: 36 characters, hexadecimal with dashes.
func (u UUID) Text36() string {
	var b [36]byte
	at := 0
	for i, group := range [...][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			b[at] = '-'
			at++
		}
		at += hex.Encode(b[at:], group)
	}
	return string(b[:])
}
