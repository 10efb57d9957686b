// Package config reads ackproxy's settings: defaults, then a YAML file, then the environment, then flags, the later ones winning.
// Whatever is wrong in any of them is reported at once and with its position; nothing here opens a socket or ends the process.
package config

import "time"

// Config is every setting. The yaml tags are the names of the contract; the environment variable of a scalar setting is its path in
// capitals behind ACKPROXY_.
type Config struct {
	Listen   Listen   `yaml:"listen" envPrefix:"LISTEN_"`
	Upstream Upstream `yaml:"upstream" envPrefix:"UPSTREAM_"`
	Protocol Protocol `yaml:"protocol" envPrefix:"PROTOCOL_"`
	Policies []Policy `yaml:"policies" env:"-"`
	Audit    Audit    `yaml:"audit" env:"-"`
	Admin    Admin    `yaml:"admin" envPrefix:"ADMIN_"`
	State    State    `yaml:"state" envPrefix:"STATE_"`
	Drain    Drain    `yaml:"drain" envPrefix:"DRAIN_"`
	Log      Log      `yaml:"log" envPrefix:"LOG_"`
}

// Listen says where clients find the proxy.
type Listen struct {
	Mode        Mode        `yaml:"mode" env:"MODE"`
	Bootstrap   ListenAddr  `yaml:"bootstrap" env:"BOOTSTRAP"`
	Advertise   Host        `yaml:"advertise" env:"ADVERTISE"`
	BrokerPorts BrokerPorts `yaml:"broker_ports" envPrefix:"BROKER_PORTS_"`
}

// BrokerPorts says where the brokers are served: node n at Base + n.
type BrokerPorts struct {
	Base Port `yaml:"base" env:"BASE"`
}

// Upstream says where the brokers are.
type Upstream struct {
	Bootstrap   []HostPort         `yaml:"bootstrap" env:"BOOTSTRAP"`
	Nodes       map[int32]HostPort `yaml:"nodes" env:"-"`
	HostPattern Pattern            `yaml:"host_pattern" env:"HOST_PATTERN"`
	DialTimeout Duration           `yaml:"dial_timeout" env:"DIAL_TIMEOUT"`
}

// Protocol holds limits, and what is done about what the proxy does not know.
type Protocol struct {
	MaxFrame            Size        `yaml:"max_frame" env:"MAX_FRAME"`
	MaxInFlight         Count       `yaml:"max_in_flight" env:"MAX_IN_FLIGHT"`
	MaxBuffered         Size        `yaml:"max_buffered" env:"MAX_BUFFERED"`
	KeepRecords         Size        `yaml:"keep_records" env:"KEEP_RECORDS"`
	HeaderTimeout       Duration    `yaml:"header_timeout" env:"HEADER_TIMEOUT"`
	UnknownAPIs         UnknownAPIs `yaml:"unknown_apis" env:"UNKNOWN_APIS"`
	SASLv0              SASLv0      `yaml:"sasl_v0" env:"SASL_V0"`
	TxnShareAcknowledge Txn         `yaml:"txn_share_acknowledge" envPrefix:"TXN_SHARE_ACKNOWLEDGE_"`
}

// Txn is the key of TxnShareAcknowledge (KIP-1289) and when it is taken for that message.
type Txn struct {
	APIKey APIKey `yaml:"api_key" env:"API_KEY"`
	Arm    Arm    `yaml:"arm" env:"ARM"`
}

// Policy is one entry of policies: a built-in one or a plugin, and how it is asked.
type Policy struct {
	Name      string    `yaml:"name"`
	Builtin   string    `yaml:"builtin"` // its name, where there is no plugin
	Plugin    Plugin    `yaml:"plugin"`
	OnFailure OnFailure `yaml:"on_failure"`
	Timeout   Duration  `yaml:"timeout"` // for a decision; 0: what the policy declares
	Config    Raw       `yaml:"config"`  // the policy's own
}

// Plugin is a program that decides.
type Plugin struct {
	Path      string       `yaml:"path"`   // absolute
	SHA256    string       `yaml:"sha256"` // of the program, in hexadecimal digits
	Args      []string     `yaml:"args"`
	Files     []PluginFile `yaml:"files"`
	Env       []string     `yaml:"env"`        // names of variables that are passed on
	SocketDir string       `yaml:"socket_dir"` // empty: the folder for temporary files
}

// PluginFile is a file beside the program whose content must be known, as an interpreter's script.
type PluginFile struct {
	Path   string `yaml:"path"`
	SHA256 string `yaml:"sha256"`
}

// Audit is the built-in observer.
type Audit struct {
	Sinks []Sink `yaml:"sinks"`
}

// Sink is one place that audit lines go to.
type Sink struct {
	Type SinkType `yaml:"type"`
	Path string   `yaml:"path"` // of a file sink
}

// String is the sink as the flag --audit spells it.
func (s Sink) String() string {
	if s.Type == SinkFile {
		return "file:" + s.Path
	}
	return string(s.Type)
}

// Admin is the HTTP server with /livez, /readyz and /metrics.
type Admin struct {
	Listen AdminAddr `yaml:"listen" env:"LISTEN"`
}

// State is where learnt broker addresses are kept over a restart.
type State struct {
	Dir string `yaml:"dir" env:"DIR"` // empty keeps them in memory
}

// Drain says how long connections may go on after SIGTERM.
type Drain struct {
	Timeout Duration `yaml:"timeout" env:"TIMEOUT"`
}

// Log says how much is logged and in which form.
type Log struct {
	Level  Level  `yaml:"level" env:"LEVEL"`
	Format Format `yaml:"format" env:"FORMAT"`
}

// Defaults returns the settings that hold where nothing else is said.
func Defaults() Config {
	return Config{
		Listen: Listen{
			Mode:        ModePorts,
			Bootstrap:   "127.0.0.1:19092",
			Advertise:   "127.0.0.1",
			BrokerPorts: BrokerPorts{Base: 19100},
		},
		Upstream: Upstream{
			Bootstrap:   []HostPort{"localhost:9092"},
			Nodes:       map[int32]HostPort{},
			DialTimeout: Duration(5 * time.Second),
		},
		Protocol: Protocol{
			MaxFrame:            100 * MiB,
			MaxInFlight:         1024,
			MaxBuffered:         256 * MiB,
			KeepRecords:         64 * MiB,
			HeaderTimeout:       Duration(10 * time.Second),
			UnknownAPIs:         UnknownPass,
			SASLv0:              SASLKnown,
			TxnShareAcknowledge: Txn{APIKey: 80, Arm: ArmAuto},
		},
		Policies: []Policy{},
		Audit:    Audit{Sinks: []Sink{{Type: SinkStdout}}},
		Admin:    Admin{Listen: "127.0.0.1:9464"},
		State:    State{Dir: "./ackproxy-state"},
		Drain:    Drain{Timeout: Duration(25 * time.Second)},
		Log:      Log{Level: "info", Format: FormatAuto},
	}
}

// DrainTimeout is drain.timeout as the proxy takes it, to which 0 is the default: no time at all is the shortest there is.
func (c Config) DrainTimeout() time.Duration { return max(time.Duration(c.Drain.Timeout), 1) }
