package config

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is written as Go writes it, and may also use d for 24 hours. It is never negative.
type Duration time.Duration

var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d(.*)$`)

// UnmarshalText parses "25s", "1h30m", "2d12h".
func (d *Duration) UnmarshalText(b []byte) error {
	text, total := strings.TrimSpace(string(b)), 0.0
	if m := days.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return bad("write 30s, 5m, 1h30m or 2d", "%q is not a duration", text)
		}
		total, text = n*float64(24*time.Hour), m[2]
		if text == "" {
			text = "0s"
		}
	}
	rest, err := time.ParseDuration(text)
	switch {
	case err != nil && isNumber(text):
		return bad(fmt.Sprintf("write %ss, or another of ms, s, m, h, d", text), "the duration %s has no unit", text)
	case err != nil:
		return bad("write 30s, 5m, 1h30m or 2d", "%q is not a duration", string(b))
	case rest < 0:
		return bad("write a positive one", "the duration %s is negative", text)
	case total+float64(rest) >= math.MaxInt64:
		return bad("at most about 106751d", "the duration %s is too long", string(b))
	}
	*d = Duration(int64(total)) + Duration(rest)
	return nil
}

// String is the shortest Go form of d: 25s, 1m30s, 1h.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// Size is a number of bytes.
type Size int64

// The units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

var sizes = regexp.MustCompile(`^([0-9]+)\s*([A-Za-z]*)$`)

// UnmarshalText parses "65536", "64KiB", "100MiB", "1GiB".
func (s *Size) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	m := sizes.FindStringSubmatch(text)
	if m == nil {
		return bad("write bytes, or a whole number of KiB, MiB or GiB", "%q is not a size", text)
	}
	unit, ok := map[string]Size{"": 1, "B": 1, "KiB": KiB, "MiB": MiB, "GiB": GiB}[m[2]]
	if !ok {
		return bad(unitHint(m[1], m[2]), "the size %s has the unit %s", text, m[2])
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return bad("at most 8388607 GiB", "the size %s is too large", text)
	}
	*s = Size(n) * unit
	return nil
}

func unitHint(number, unit string) string {
	switch strings.ToLower(unit)[0] {
	case 'k':
		return "write " + number + "KiB, which is 1024 bytes each"
	case 'm':
		return "write " + number + "MiB, which is 1048576 bytes each"
	case 'g':
		return "write " + number + "GiB, which is 1073741824 bytes each"
	}
	return "write bytes, KiB, MiB or GiB"
}

// String is s in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		size Size
		name string
	}{{GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// splitHostPort parses host:port. lowest is the smallest port allowed.
func splitHostPort(text string, lowest int) (host string, err error) {
	const write = "write host:port, as in kafka-1:9092 or [::1]:9092"
	if i := strings.Index(text, "://"); i >= 0 {
		return "", bad("write it without "+text[:i+3], "%q is a URL", text)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		var ae *net.AddrError
		if isNumber(text) {
			return "", bad("write 127.0.0.1:"+text, "%q has no host", text)
		}
		if a, ok := err.(*net.AddrError); ok {
			ae = a
			return "", bad(write, "%q: %s", text, ae.Err)
		}
		return "", bad(write, "%q is not host:port", text)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < lowest || n > 65535 {
		return "", bad(fmt.Sprintf("write a port of %d to 65535", lowest), "%q: the port %q is out of range", text, port)
	}
	if strings.ContainsAny(host, " \t/,;@") {
		return "", bad(write, "%q: the host holds a character that no host has", text)
	}
	return host, nil
}

// HostPort is the address of a broker.
type HostPort string

// UnmarshalText checks host and port.
func (h *HostPort) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	host, err := splitHostPort(text, 1)
	if err != nil {
		return err
	}
	if host == "" {
		return bad("write host:port, as in kafka-1:9092", "%q has no host", text)
	}
	*h = HostPort(text)
	return nil
}

// ListenAddr is an address to bind: port 0 takes any, an empty host binds every interface.
type ListenAddr string

// UnmarshalText checks host and port.
func (l *ListenAddr) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	if _, err := splitHostPort(text, 0); err != nil {
		return err
	}
	*l = ListenAddr(text)
	return nil
}

// AdminAddr is an address to bind, or AdminNone.
type AdminAddr string

// AdminNone starts no admin server.
const AdminNone AdminAddr = "none"

// UnmarshalText checks host and port.
func (a *AdminAddr) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	if text != string(AdminNone) {
		if _, err := splitHostPort(text, 0); err != nil {
			problem, hint := explain(err)
			return bad(hint+", or none", "%s", problem)
		}
	}
	*a = AdminAddr(text)
	return nil
}

// Host is a host name or address without a port, told to clients.
type Host string

// UnmarshalText refuses ports, URLs and the unspecified address.
func (h *Host) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	ip := net.ParseIP(text)
	switch {
	case text == "":
		return bad("write the name or address that clients use", "the host is empty")
	case ip != nil && ip.IsUnspecified():
		return bad("write the name or address that clients use", "%s is no address that a client can connect to", text)
	case ip == nil && strings.ContainsAny(text, ":/ \t,;@[]"):
		return bad("write a host name or an address, without port or scheme", "%q is not a host", text)
	}
	*h = Host(text)
	return nil
}

// Pattern makes a broker's address of its id: kafka-{id}:9092. Empty: there is none.
type Pattern string

// UnmarshalText checks that the pattern has {id} and makes addresses.
func (p *Pattern) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	if text == "" {
		*p = ""
		return nil
	}
	if !strings.Contains(text, "{id}") {
		return bad("write it as in kafka-{id}:9092", "the pattern %q has no {id}", text)
	}
	if host, err := splitHostPort(strings.ReplaceAll(text, "{id}", "1"), 1); err != nil || host == "" {
		return bad("write it as in kafka-{id}:9092", "the pattern %q does not make host:port", text)
	}
	*p = Pattern(text)
	return nil
}
