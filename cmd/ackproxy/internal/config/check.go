package config

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"

	"github.com/ackproxy/ackproxy/policy/audit"
)

// at is where a setting got its value, or the nearest setting around it that is known.
func (l *loader) at(paths ...string) (origin, string) {
	for _, p := range paths {
		if o, ok := l.origins[p]; ok {
			return o, p
		}
	}
	return origin{}, paths[0]
}

// check looks at what single values cannot show.
func (l *loader) check() {
	l.checkLimits()
	l.checkAddresses()
	l.checkSinks()
	l.checkPolicies()
}

func (l *loader) checkLimits() {
	p := l.config.Protocol
	for _, d := range []struct {
		path  string
		value Duration
	}{{"upstream.dial_timeout", l.config.Upstream.DialTimeout}, {"protocol.header_timeout", p.HeaderTimeout}} {
		if d.value == 0 {
			o, path := l.at(d.path)
			l.add(o, path, "the time limit is 0", "write a positive duration, as 5s")
		}
	}
	if p.MaxFrame < KiB || p.MaxFrame > math.MaxInt32 {
		o, path := l.at("protocol.max_frame")
		l.add(o, path, "the size "+p.MaxFrame.String()+" is out of range", "write 1KiB to 2147483647, brokers have 100MiB")
	}
	if p.MaxBuffered < MiB {
		o, path := l.at("protocol.max_buffered")
		l.add(o, path, "the size "+p.MaxBuffered.String()+" is too small", "write 1MiB or more")
	}
	if len(l.config.Upstream.Bootstrap) == 0 && !l.failed("upstream.bootstrap") {
		o, path := l.at("upstream.bootstrap")
		l.add(o, path, "no broker is given", "write [host:port]")
	}
}

// failed says whether a problem with path, or below it, was reported.
func (l *loader) failed(path string) bool {
	for _, p := range l.report.Problems {
		if len(p.Key) >= len(path) && p.Key[:len(path)] == path {
			return true
		}
	}
	return false
}

// checkAddresses refuses addresses that cannot all be bound, and an upstream that is the proxy itself.
func (l *loader) checkAddresses() {
	c := l.config
	listen := string(c.Listen.Bootstrap)
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return
	}
	if clash(listen, string(c.Admin.Listen)) && port != "0" {
		o, path := l.at("admin.listen", "listen.bootstrap")
		l.add(o, path, "the admin server has the address of listen.bootstrap, "+listen, "give them different ports")
	}
	for i, u := range c.Upstream.Bootstrap {
		if same(listen, string(u)) {
			o, path := l.at(fmt.Sprintf("upstream.bootstrap[%d]", i), "upstream.bootstrap", "listen.bootstrap")
			l.add(o, path, "the upstream "+string(u)+" is the proxy's own listener", "write the address of a broker")
		}
	}
	for id, address := range c.Upstream.Nodes {
		own := int(c.Listen.BrokerPorts.Base) + int(id)
		path := "upstream.nodes." + strconv.Itoa(int(id))
		if own > 65535 {
			o, path := l.at(path)
			l.add(o, path, fmt.Sprintf("the node would be served on port %d, which does not exist", own), "lower listen.broker_ports.base")
		} else if same(net.JoinHostPort(host, strconv.Itoa(own)), string(address)) {
			o, path := l.at(path)
			l.add(o, path, "the node's address is the proxy's own listener for it", "write the address of the broker")
		}
		if clash(net.JoinHostPort(host, strconv.Itoa(own)), string(c.Admin.Listen)) {
			o, path := l.at("listen.broker_ports.base", path)
			l.add(o, path, fmt.Sprintf("node %d would be served on the port of admin.listen, %d", id, own), "choose another base")
		}
		if strconv.Itoa(own) == port {
			o, path := l.at("listen.broker_ports.base", path)
			l.add(o, path, fmt.Sprintf("node %d would be served on the port of listen.bootstrap, %s", id, port), "choose another base")
		}
	}
	l.warnAdvertise(host)
}

// warnAdvertise points out that clients elsewhere would be told a loopback address.
func (l *loader) warnAdvertise(host string) {
	advertise := string(l.config.Listen.Advertise)
	if loopback(advertise) && !loopback(host) {
		o, path := l.at("listen.advertise", "listen.bootstrap")
		w := o.problem(path, "the proxy listens on "+cmp.Or(host, "every interface")+" but tells clients "+advertise,
			"set listen.advertise to a name that clients on other hosts reach, unless there are none")
		l.report.Warnings = append(l.report.Warnings, w)
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// same says whether two addresses are one, as far as can be told without asking anyone.
func same(a, b string) bool {
	ha, pa, errA := net.SplitHostPort(a)
	hb, pb, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || pa != pb {
		return false
	}
	return ha == hb || loopback(ha) && loopback(hb)
}

// clash says whether two listeners cannot have these addresses.
func clash(a, b string) bool {
	ha, pa, errA := net.SplitHostPort(a)
	hb, pb, errB := net.SplitHostPort(b)
	return same(a, b) || errA == nil && errB == nil && pa == pb && (everywhere(ha) || everywhere(hb))
}

func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func sinkPath(i int) string { return fmt.Sprintf("audit.sinks[%d]", i) }

// checkSinks looks for missing paths, and for two writers to one place: sinks of policies come after those of audit.
func (l *loader) checkSinks() {
	taken := map[string]bool{}
	for i, s := range l.config.Audit.Sinks {
		if l.failed(sinkPath(i)) {
			continue
		}
		o, path := l.at(sinkPath(i), "audit.sinks")
		if path == "audit.sinks" && o.key == "" {
			path = sinkPath(i)
		}
		switch {
		case s.Type == "":
			l.add(o, path, "the sink has no type", "write {type: stdout} or {type: file, path: …}")
			continue
		case s.Type == SinkFile && s.Path == "":
			l.add(o, path, "the file sink has no path", "write {type: file, path: /var/log/ackproxy/audit.jsonl}")
			continue
		case s.Type == SinkStdout && s.Path != "":
			l.add(o, path, "stdout has no path", "write {type: stdout}, or {type: file, path: …}")
			continue
		}
		l.take(taken, s, o, path)
	}
	for i, p := range l.config.Policies {
		if p.Builtin != BuiltinAudit || l.failed(policyPath(i, "config")) {
			continue
		}
		sinks, err := audit.ReadConfig(p.Config)
		if err != nil {
			continue // checkPolicies tells of it
		}
		for j, s := range sinks {
			path := fmt.Sprintf("%s.sinks[%d]", policyPath(i, "config"), j)
			l.take(taken, Sink{Type: SinkType(s.Type), Path: s.Path}, l.around(path), path)
		}
	}
}

// take notes that a sink is in use, and refuses it a second time.
func (l *loader) take(taken map[string]bool, s Sink, o origin, path string) {
	if s.Path != "" {
		if abs, err := filepath.Abs(s.Path); err == nil {
			s.Path = abs
		}
	}
	if taken[s.String()] {
		l.add(o, path, "two sinks write to "+s.String(), "give each a place of its own")
	}
	taken[s.String()] = true
}
