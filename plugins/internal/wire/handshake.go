// Package wire is what both ends of a plugin share: the handshake, and the translation between package policy and its proto.
package wire

import "math"

// The handshake of hashicorp/go-plugin. The cookie is no secret: it tells a plugin that ackproxy started it, and not a person.
const (
	CookieKey   = "ACKPROXY_PLUGIN"
	CookieValue = "share-group-policy"
	// Service is the name in go-plugin's set, and PluginService that of go-plugin's own health service.
	Service       = "policy"
	HealthService = "plugin"
)

// ProtocolVersion is that of the proto: both ends must have it.
const ProtocolVersion = 1

// Sizes of messages, in bytes.
const (
	DefaultMessage = 4 << 20 // what a gRPC server takes unless it says otherwise
	LargestMessage = math.MaxInt32 >> 4
	// Windows of flow control. They are fixed because gRPC would otherwise measure the connection, with a ping beside each message: latency.
	StreamWindow = 2 << 20
	ConnWindow   = 2 * StreamWindow
)
