package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/ackproxy/ackproxy/policy"
)

// Arm says when the key of TxnShareAcknowledge (KIP-1289) is taken for that message.
type Arm string

// The values of Arm.
const (
	ArmAuto   Arm = "auto"   // where a broker's ApiVersions lists the key and shows share.version 3 or more
	ArmAlways Arm = "always" // for test rigs
	ArmNever  Arm = "never"
)

// Config is all a Server needs. The zero value of a limit means its default, which Defaults shows.
type Config struct {
	Bootstrap       string // address of the bootstrap listener, host:port; port 0 takes any
	Advertise       string // host that clients are told
	BrokerPortsBase int    // node n is served at base + n

	Upstream    []string         // bootstrap brokers, host:port
	Nodes       map[int32]string // nodes known before any answer taught us, host:port
	HostPattern string           // address of a node by its id, "kafka-{id}:9092"; used for nodes that Nodes lacks
	DialTimeout time.Duration

	MaxFrame        int           // bytes, either direction
	MaxInFlight     int           // requests outstanding on one connection
	MaxBuffered     int64         // bytes of frames held whole, and of what unanswered requests keep, all connections together
	HeaderTimeout   time.Duration // for a header, or a frame that is held, to become whole; for a large one, to make progress
	HideUnknownAPIs bool
	SASLv0Relay     bool // relay connections blindly after a SaslHandshake v0 whose mechanism we cannot follow
	TxnKey          int16
	TxnArm          Arm

	StateDir     string        // where learnt nodes are kept; empty keeps them in memory
	DrainTimeout time.Duration // how long Shutdown waits for connections

	Policies    *policy.Chain // decides about requests that carry acknowledgements; nil: nobody does
	KeepRecords int64         // bytes of records kept for policies that look at them; negative: none
	Observers   []policy.Observer
	Endpoints   []policy.EndpointMember // say where clients find brokers, where Advertise and BrokerPortsBase are not right for all
	Registerer  prometheus.Registerer   // nil: metrics are kept but registered nowhere
	Log         zerolog.Logger
}

// Defaults returns the default configuration.
func Defaults() Config {
	return Config{
		Bootstrap:       "127.0.0.1:19092",
		Advertise:       "127.0.0.1",
		BrokerPortsBase: 19100,
		Upstream:        []string{"localhost:9092"},
		DialTimeout:     5 * time.Second,
		MaxFrame:        100 << 20,
		MaxInFlight:     1024,
		MaxBuffered:     256 << 20,
		HeaderTimeout:   10 * time.Second,
		TxnKey:          80,
		TxnArm:          ArmAuto,
		StateDir:        "./ackproxy-state",
		DrainTimeout:    25 * time.Second,
		KeepRecords:     64 << 20,
		Log:             zerolog.Nop(),
	}
}
