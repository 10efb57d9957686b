package dlq

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
	"github.com/ackproxy/ackproxy/policy/internal/pattern"
	"github.com/ackproxy/ackproxy/policy/internal/settings"
)

// Choice is what can be done where a dead letter could not be written in time.
type Choice uint8

// The choices, of which Config.OnFailure is a list: the first that works is taken.
const (
	Spool    Choice = iota // keep the letter in a local file until it can be produced; the Reject goes on
	Release                // forward a Release in place of the Reject, where the delivery count is known and below the limit
	Withhold               // withhold the whole partition, answered KAFKA_STORAGE_ERROR (56)
	Forward                // forward the Reject: the record is lost
	Close                  // close the connection; nothing is forwarded
)

var choiceNames = []string{"spool", "release", "withhold", "forward", "close"}

// String is the choice as the configuration spells it.
func (c Choice) String() string { return choiceNames[c] }

// Config is the policy's configuration. docs/dead-letters.md says what its keys mean.
type Config struct {
	Cluster  Cluster            // where dead letters go
	Clusters map[string]Cluster // further ones, for rules
	Source   *Cluster           // the one that the proxy stands before; nil: records that did not pass by cannot be fetched

	Topic         string // "dlq.{topic}"; {group} is known as well
	AllowedPrefix string // of every target topic; empty allows all
	Rules         []Rule // the first that matches wins over Topic
	Create        *Create

	Profile           letter.Profile
	OriginalTimestamp bool // of dead letters; else the time of producing

	OnReject, OnReleaseAtLimit bool
	OnFailure                  []Choice
	QueueTransactions          bool // else what is rejected in a transaction passes without a letter
	TooLargeFails              bool // else a letter without payload is written
	UnavailableFails           bool // as well
	Budget                     time.Duration
	MaxLetters                 int   // of one request
	Memory                     int64 // bytes of letters that are being produced or spooled
	MaxRecord                  int64 // bytes of a dead letter

	SpoolBytes int64
	SpoolAge   time.Duration

	Breaker      *Breaker
	StandDown    bool // for groups whose broker writes dead letters itself
	Redeadletter bool // also records that are dead letters already, from a dead-letter topic
	Infer        bool // write letters of last deliveries whose lock ran out

	standDownSet bool // StandDown is what the configuration says, and not the default

	DeliveryLimit int           // of groups whose own is not known
	Lock          time.Duration // as well
	Reasons       *Reasons
}

// Rule is another target for some dead letters: those whose names all patterns match.
type Rule struct {
	Group, Topic, Principal pattern.Pattern
	Target, Cluster         string // empty: as without the rule
}

// Create says how target topics that do not exist are made.
type Create struct {
	Partitions  int // of the topic
	Replication int // -1 is the broker's default
	Retention   time.Duration
}

// Breaker keeps a group that rejects everything from emptying its topics into dead-letter topics.
type Breaker struct {
	Rate   int           // dead letters a second, over the window, above which it opens
	Window time.Duration // also the shortest time between two looks
	Pass   bool          // open: Rejects go on without a dead letter; else they become Releases where that keeps the record
	Probe  time.Duration // how long it stays open before the rate is looked at again
}

// Reasons is where applications leave the reasons of their Rejects.
type Reasons struct {
	Listen string // a loopback host:port, or the path of a unix socket
	Keep   int    // how many reasons are remembered
}

// defaults are what the configuration changes.
func defaults() Config {
	const day = 24 * time.Hour
	return Config{
		Topic: "dlq.{topic}", AllowedPrefix: "dlq.", OnReject: true, OnReleaseAtLimit: true,
		OnFailure: []Choice{Spool, Release, Withhold},
		Budget:    2 * time.Second, MaxLetters: 10000, Memory: 64 << 20, MaxRecord: 32 << 20,
		SpoolBytes: 1 << 30, SpoolAge: 7 * day, StandDown: true, DeliveryLimit: 5, Lock: 30 * time.Second,
	}
}

// beside is what each of three things may take beside Memory: records that are fetched again, letters that found no room in time, and what is
// read back from the spool.
func (c *Config) beside() int64 { return max(c.Memory/4, c.MaxRecord) }

// Parse reads a configuration in JSON. All its mistakes are joined, each a *policy.ConfigError.
func Parse(config []byte) (Config, error) {
	c, r := defaults(), &reader{}
	if len(config) == 0 {
		config = []byte("{}")
	}
	r.object("", config, c.fields(r))
	c.check(r)
	if err := r.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c *Config) fields(r *reader) map[string]field {
	const maxBytes, maxMemory = math.MaxInt64, 1 << 40
	return map[string]field{
		"cluster":        c.Cluster.read(r),
		"clusters":       c.readClusters(r),
		"source":         func(path string, raw json.RawMessage) { c.Source = new(Cluster); c.Source.read(r)(path, raw) },
		"topic":          r.text(&c.Topic),
		"allowed_prefix": r.text(&c.AllowedPrefix),
		"rules":          c.readRules(r),
		"create":         c.readCreate(r),
		"profile":        r.choice(func(i int) { c.Profile = letter.Profile(i) }, "kip1191", "spring", "connect"),
		"timestamp":      r.choice(func(i int) { c.OriginalTimestamp = i == 1 }, "now", "original"),
		"on":             c.readOn(r),
		"on_failure":     c.readOnFailure(r),
		"transactions":   r.choice(func(i int) { c.QueueTransactions = i == 1 }, "pass", "queue"),
		"too_large":      r.choice(func(i int) { c.TooLargeFails = i == 1 }, "headers_only", "on_failure"),
		"unavailable":    r.choice(func(i int) { c.UnavailableFails = i == 1 }, "headers_only", "on_failure"),
		"budget":         r.duration(&c.Budget, 10*time.Millisecond),
		"max_letters":    r.integer(&c.MaxLetters, 1, 100000),
		"memory":         r.size(&c.Memory, 1<<20, maxMemory),
		"max_record":     r.size(&c.MaxRecord, 64<<10, 512<<20),
		"spool": func(path string, raw json.RawMessage) {
			r.object(path, raw, map[string]field{"max_bytes": r.size(&c.SpoolBytes, 1<<20, maxBytes), "max_age": r.duration(&c.SpoolAge, time.Minute)})
		},
		"breaker":      c.readBreaker(r),
		"stand_down":   r.choice(func(i int) { c.StandDown, c.standDownSet = i == 0, i == 0 }, "when_effective", "never"),
		"redeadletter": r.boolean(&c.Redeadletter),
		"infer":        r.boolean(&c.Infer),
		"group": func(path string, raw json.RawMessage) {
			r.object(path, raw, map[string]field{"delivery_limit": r.integer(&c.DeliveryLimit, 2, math.MaxInt16), "lock": r.duration(&c.Lock, time.Second)})
		},
		"reasons": c.readReasons(r),
	}
}

func (c *Config) readClusters(r *reader) field {
	return func(path string, raw json.RawMessage) {
		var clusters map[string]json.RawMessage
		if !r.decode(path, raw, &clusters, "an object") {
			return
		}
		c.Clusters = make(map[string]Cluster, len(clusters))
		for name, raw := range clusters {
			if !legalTopic(name) {
				r.Add(settings.Join(path, name), "the name of a cluster has letters, digits, dots, dashes and underscores only", "")
			}
			var one Cluster
			one.read(r)(settings.Join(path, name), raw)
			c.Clusters[name] = one
		}
	}
}

func (c *Config) readRules(r *reader) field {
	return func(path string, raw json.RawMessage) {
		r.list(path, raw, func(path string, raw json.RawMessage) {
			rule := Rule{Group: pattern.All, Topic: pattern.All, Principal: pattern.All}
			r.object(path, raw, map[string]field{
				"topic": r.text(&rule.Target), "cluster": r.text(&rule.Cluster),
				"match": func(path string, raw json.RawMessage) {
					r.object(path, raw, map[string]field{
						"group": r.text((*string)(&rule.Group)), "topic": r.text((*string)(&rule.Topic)), "principal": r.text((*string)(&rule.Principal))})
				},
			})
			rule.check(r, settings.Join(path, "match"))
			c.Rules = append(c.Rules, rule)
		})
	}
}

func (c *Config) readCreate(r *reader) field {
	return func(path string, raw json.RawMessage) {
		c.Create = &Create{Partitions: 1, Replication: -1, Retention: 14 * 24 * time.Hour}
		r.object(path, raw, map[string]field{
			"partitions": r.integer(&c.Create.Partitions, 1, 10000), "replication": r.integer(&c.Create.Replication, -1, 100),
			"retention": r.duration(&c.Create.Retention, time.Minute)})
		if c.Create.Replication == 0 {
			r.Add(settings.Join(path, "replication"), "no replica at all", "leave it out for the broker's default")
		}
	}
}

func (c *Config) readOn(r *reader) field {
	return func(path string, raw json.RawMessage) {
		c.OnReject, c.OnReleaseAtLimit = false, false
		r.list(path, raw, r.choice(func(i int) {
			c.OnReject, c.OnReleaseAtLimit = c.OnReject || i == 0, c.OnReleaseAtLimit || i == 1
		}, "reject", "release_at_limit"))
	}
}

func (c *Config) readOnFailure(r *reader) field {
	return func(path string, raw json.RawMessage) {
		c.OnFailure = nil
		r.list(path, raw, r.choice(func(i int) { c.OnFailure = append(c.OnFailure, Choice(i)) }, choiceNames...))
	}
}

func (c *Config) readBreaker(r *reader) field {
	return func(path string, raw json.RawMessage) {
		c.Breaker = &Breaker{Rate: 100, Window: 10 * time.Second, Probe: 30 * time.Second}
		r.object(path, raw, map[string]field{
			"rate": r.integer(&c.Breaker.Rate, 1, 1_000_000), "window": r.duration(&c.Breaker.Window, 100*time.Millisecond),
			"open":  r.choice(func(i int) { c.Breaker.Pass = i == 1 }, "release", "pass"),
			"probe": r.duration(&c.Breaker.Probe, 100*time.Millisecond)})
	}
}

func (c *Config) readReasons(r *reader) field {
	return func(path string, raw json.RawMessage) {
		c.Reasons = &Reasons{Keep: 10000}
		r.object(path, raw, map[string]field{"listen": r.text(&c.Reasons.Listen), "keep": r.integer(&c.Reasons.Keep, 1, 1_000_000)})
		if strings.HasPrefix(c.Reasons.Listen, "/") {
			return
		}
		host, port, err := net.SplitHostPort(c.Reasons.Listen)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			r.Add(settings.Join(path, "listen"), fmt.Sprintf("%q is neither a loopback address nor the path of a socket", c.Reasons.Listen),
				"write 127.0.0.1:9465 or /run/ackproxy/reasons.sock")
		}
	}
}
