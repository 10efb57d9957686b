package capture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// shown renders a segment; it is empty if there is none.
func shown(s segment, ok bool) string {
	if !ok {
		return ""
	}
	return fmt.Sprintf("%v>%v %d %t %t %q", s.from, s.to, s.seq, s.syn, s.ack, s.data)
}

const (
	want4 = `10.0.0.1:50000>10.0.0.2:9092 7 false true "abc"`
	want6 = `[fd00::1]:50000>[fd00::2]:9092 7 false true "abc"`
)

var (
	packet4 = packet{from: client4, to: server4, seq: 7, ack: true, data: "abc"}
	packet6 = packet{from: client6, to: server6, seq: 7, ack: true, data: "abc"}
)

// spliced is b with bytes inserted at a place.
func spliced(b []byte, at int, in ...byte) []byte { return slices.Insert(slices.Clone(b), at, in...) }

// with is b with some bytes changed: pairs of place and value.
func with(b []byte, changes ...int) []byte {
	b = slices.Clone(b)
	for i := 0; i < len(changes); i += 2 {
		b[changes[i]] = byte(changes[i+1])
	}
	return b
}

// extended is packet6 with headers between IPv6 and TCP; first is the type of the first one.
func extended(t testing.TB, first byte, headers ...byte) []byte {
	b, _ := packet6.ip(t)
	b = spliced(b, 40, headers...)
	b[6] = first
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	return b
}

type frameCase struct {
	name string
	link linkType
	data []byte
	want string
}

func frameCases(t testing.TB) []frameCase {
	ip4, _ := packet4.ip(t)
	ip6, _ := packet6.ip(t)
	ether4, ether6 := framed(layers.LinkTypeEthernet, slices.Clone(ip4), 4), framed(layers.LinkTypeEthernet, slices.Clone(ip6), 6)
	cooked, cooked2 := framed(layers.LinkTypeLinuxSLL, ip4, 4), framed(layers.LinkTypeLinuxSLL2, ip6, 6)
	family := func(f ...byte) []byte { return append(f, ip6...) }
	options4 := with(spliced(ip4, 20, 7, 7, 4, 0, 0, 0, 0, 0), 0, 0x47, 3, len(ip4)+8)
	tcpOptions := with(spliced(ip4, 40, 2, 4, 5, 0xb4, 1, 1, 1, 0), 3, len(ip4)+8, 32, 0x70)
	return []frameCase{
		{"ethernet pads", linkEthernet, ether4, want4},
		{"VLAN", linkEthernet, spliced(ether4, 12, 0x81, 0, 0, 5), want4},
		{"802.1ad", linkEthernet, spliced(ether6, 12, 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6), want6},
		{"QinQ of old", linkEthernet, spliced(ether4, 12, 0x91, 0, 0, 5, 0x81, 0, 0, 6), want4},
		{"VLAN, cooked", linkLinux, spliced(cooked, 14, 0x81, 0, 0, 5), want4},
		{"VLAN, ends", linkEthernet, spliced(ether4, 12, 0x81, 0, 0, 5)[:17], ""},
		{"ARP", linkEthernet, with(ether4, 13, 6), ""},
		{"length in place of a type", linkEthernet, with(ether4, 12, 0, 13, 46), ""},
		{"cooked", linkLinux, cooked, want4},
		{"cooked 2", linkLinux2, cooked2, want6},
		{"raw", linkRaw, ip4, want4},
		{"raw, number of BSD", linkRawBSD, ip6, want6},
		{"raw, number of OpenBSD", linkRawOpen, ip6, want6},
		{"IP of version 5", linkRaw, with(ip4, 0, 0x55), ""},
		{"null of NetBSD", linkNull, family(24, 0, 0, 0), want6},
		{"null of FreeBSD, big endian", linkNull, family(0, 0, 0, 28), want6},
		{"null of macOS", linkNull, family(30, 0, 0, 0), want6},
		{"loop of Linux", linkLoop, family(0, 0, 0, 10), want6},
		{"null of another family", linkNull, family(7, 0, 0, 0), ""},
		{"link type that is not known", 105, ether4, ""},

		{"IPv4 options", linkRaw, options4, want4},
		{"IPv4 options that end", linkRaw, options4[:27], ""},
		{"IPv4 header too short", linkRaw, with(ip4, 0, 0x44), ""},
		{"IPv4 length 0", linkRaw, with(ip4, 2, 0, 3, 0), want4},
		{"IPv4 length below the header's", linkRaw, with(ip4, 3, 19), ""},
		{"IPv4 don't fragment", linkRaw, with(ip4, 6, 0x40), want4},
		{"IPv4 first fragment", linkRaw, with(ip4, 6, 0x20), ""},
		{"IPv4 last fragment", linkRaw, with(ip4, 7, 1), ""},
		{"UDP", linkRaw, with(ip4, 9, 17), ""},

		{"IPv6 hop-by-hop", linkRaw, extended(t, 0, 6, 0, 1, 4, 0, 0, 0, 0), want6},
		{"IPv6 hop-by-hop, routing, destination", linkRaw, extended(t, 0, 43, 0, 1, 4, 0, 0, 0, 0,
			60, 2, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 6, 0, 1, 4, 0, 0, 0, 0), want6},
		{"IPv6 only fragment", linkRaw, extended(t, 44, 6, 0, 0, 0, 1, 2, 3, 4), want6},
		{"IPv6 first fragment", linkRaw, extended(t, 44, 6, 0, 0, 1, 1, 2, 3, 4), ""},
		{"IPv6 last fragment", linkRaw, extended(t, 44, 6, 0, 0, 8, 1, 2, 3, 4), ""},
		{"IPv6 header longer than the packet", linkRaw, extended(t, 60, 6, 200, 1, 4, 0, 0, 0, 0), ""},
		{"IPv6 no next header", linkRaw, extended(t, 59), ""},
		{"IPv6 length 0", linkRaw, with(ip6, 4, 0, 5, 0), want6},
		{"IPv6 padded", linkRaw, append(slices.Clone(ip6), 0, 0, 0), want6},

		{"TCP options", linkRaw, tcpOptions, want4},
		{"TCP options that the capture cut", linkRaw, tcpOptions[:44], `10.0.0.1:50000>10.0.0.2:9092 7 false true ""`},
		{"TCP header that the capture cut", linkRaw, ip4[:39], ""},
		{"TCP header too short", linkRaw, with(ip4, 32, 0x40), ""},
		{"TCP payload that the capture cut", linkRaw, ip4[:42], `10.0.0.1:50000>10.0.0.2:9092 7 false true "ab"`},
		{"nothing", linkRaw, nil, ""},
	}
}

func TestSegments(t *testing.T) {
	for _, k := range frameCases(t) {
		if got := shown(frame{link: k.link, data: k.data}.segment()); got != k.want {
			t.Errorf("%s: got %s, want %s", k.name, got, k.want)
		}
		for n := range k.data { // however it is cut
			frame{link: k.link, data: k.data[:n:n]}.segment()
		}
	}
}

// oracle is the segment that gopacket finds in a frame. It is not sure where gopacket reports an error, or reads otherwise on purpose.
func oracle(link linkType, data []byte) (s segment, ok, sure bool) {
	var decoder gopacket.Decoder = layers.LinkType(link)
	switch link {
	case linkIPv4:
		decoder = layers.LayerTypeIPv4
	case linkIPv6:
		decoder = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(data, decoder, gopacket.DecodeOptions{NoCopy: true})
	if p.ErrorLayer() != nil || differs(p) {
		return s, false, false
	}
	tcp, _ := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
	if tcp == nil {
		return s, false, true
	}
	src, dst := p.NetworkLayer().NetworkFlow().Endpoints()
	from, _ := netip.AddrFromSlice(src.Raw())
	to, _ := netip.AddrFromSlice(dst.Raw())
	return segment{
		from: netip.AddrPortFrom(from, uint16(tcp.SrcPort)), to: netip.AddrPortFrom(to, uint16(tcp.DstPort)),
		seq: tcp.Seq, syn: tcp.SYN, ack: tcp.ACK, data: tcp.Payload,
	}, true, true
}

// differs says whether this package reads a packet otherwise than gopacket, on purpose: what is in tunnels (IP, GRE, MPLS, PPPoE and so
// on) and behind other headers than those known is passed over; a whole packet in a fragment header is not; an IP version that is not
// that of the EtherType is believed. Tags of type 0x9100 and link type 14 are unknown to gopacket.
func differs(p gopacket.Packet) bool {
	networks := 0
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.Ethernet:
			if l.EthernetType == 0x9100 || l.EthernetType == layers.EthernetTypeRaw {
				return true
			}
		case *layers.Dot1Q:
			if l.Type == 0x9100 || l.Type == layers.EthernetTypeRaw {
				return true
			}
		case *layers.LinuxSLL:
			if l.EthernetType == 0x9100 || l.EthernetType == layers.EthernetTypeRaw {
				return true
			}
		case *layers.LinuxSLL2: // of some hardware, gopacket ignores the type
			if l.ProtocolType == 0x9100 || l.ProtocolType == layers.EthernetTypeRaw || l.NextLayerType() != l.ProtocolType.LayerType() {
				return true
			}
		case *layers.IPv4:
			if networks++; l.Version != 4 {
				return true
			}
		case *layers.IPv6:
			if networks++; l.Version != 6 {
				return true
			}
		case *layers.IPv6Fragment:
			if l.FragmentOffset == 0 && !l.MoreFragments {
				return true
			}
		case *layers.TCP, *layers.Loopback, *layers.IPv6HopByHop, *layers.IPv6Routing, *layers.IPv6Destination, *gopacket.Payload, *gopacket.Fragment:
		default:
			return p.Layer(layers.LayerTypeTCP) != nil
		}
	}
	return networks > 1
}

var fuzzLinks = []linkType{linkNull, linkEthernet, linkRawBSD, linkRaw, linkLoop, linkLinux, linkIPv4, linkIPv6, linkLinux2}

// Every frame has the segment that gopacket finds in it.
func FuzzAgainstGopacket(f *testing.F) {
	for _, k := range frameCases(f) {
		f.Add(byte(max(slices.Index(fuzzLinks, k.link), 0)), k.data)
	}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		link := fuzzLinks[int(which)%len(fuzzLinks)]
		got := shown(frame{link: link, data: data}.segment())
		want, ok, sure := oracle(link, data)
		if sure && got != shown(want, ok) {
			t.Errorf("link type %d, % x:\ngot  %s\nwant %s", link, data, got, shown(want, ok))
		}
	})
}

// Of every frame that there is in the tests, gopacket says the same.
func TestOracleIsSure(t *testing.T) {
	sure := 0
	for _, k := range frameCases(t) {
		want, ok, known := oracle(k.link, k.data)
		if known {
			sure++
			if got := shown(frame{link: k.link, data: k.data}.segment()); got != shown(want, ok) {
				t.Errorf("%s: got %s, gopacket says %s", k.name, got, shown(want, ok))
			}
		}
	}
	if sure < 25 {
		t.Errorf("gopacket has a say in %d cases only", sure)
	}
}

// gopacketFrames is the frames of a file as pcapgo reads them.
func gopacketFrames(b []byte) (out []frame, err error) {
	if isNg(b) {
		ng, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		for err == nil {
			var data []byte
			var ci gopacket.CaptureInfo
			if data, ci, err = ng.ReadPacketData(); err == nil {
				out = append(out, frame{link: linkType(ci.AncillaryData[0].(layers.LinkType)), at: ci.Timestamp, data: data})
			}
		}
		return out, err
	}
	r, err := pcapgo.NewReader(bytes.NewReader(b))
	for err == nil {
		var data []byte
		var ci gopacket.CaptureInfo
		if data, ci, err = r.ReadPacketData(); err == nil {
			out = append(out, frame{link: linkType(r.LinkType()), at: ci.Timestamp, data: data})
		}
	}
	return out, err
}

// sameTime says whether two times are of the same packet. pcapgo reads if_tsresol 0 as if it were not there, is not exact with clocks
// that divide the second by a power of 2, and wraps what a broken pcap file has as microseconds at 32 bits of nanoseconds.
func sameTime(f *file, got, want time.Time) bool {
	inexact := func(i netInterface) bool { return i.ticks&(i.ticks-1) == 0 }
	return got.Sub(want)%(1<<32) == 0 || slices.ContainsFunc(f.interfaces, inexact)
}

// minor says whether b may have a section of a minor version other than 0, which pcapgo does not read.
func minor(b []byte) bool {
	for ; len(b) >= 16; b = b[1:] {
		if isNg(b) && (b[14] != 0 || b[15] != 0) {
			return true
		}
	}
	return false
}

// Every file has the packets that pcapgo finds in it, until one of them reports an error: pcapgo does not look whether a packet or an
// option fits its block, and knows less of what is skipped here.
func FuzzFileAgainstGopacket(f *testing.F) {
	f.Add(pcap(f, layers.LinkTypeEthernet, conversation(client4, server4)...))
	for _, order := range []blocks{{order: binary.LittleEndian}, {order: binary.BigEndian}} {
		b := order
		b.section(1, 0)
		b.iface(layers.LinkTypeRaw, 0, option{9, []byte{9}}, option{14, make([]byte, 8)}, option{0, nil})
		b.iface(layers.LinkTypeEthernet, 60)
		ip, _ := packet4.ip(f)
		b.enhanced(0, 1<<40, uint32(len(ip)), ip)
		b.obsolete(1, 1<<40, ip)
		b.simple(uint32(len(ip)), ip)
		b.block(0x0bad, ip)
		f.Add(b.out)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 || !IsCapture(b) || minor(b) {
			return
		}
		want, wantErr := gopacketFrames(b)
		file, err := open(bufio.NewReader(bytes.NewReader(b)))
		for err == nil {
			var got *frame
			got, err = file.next()
			switch {
			case err == io.EOF && len(want) > 0:
				t.Fatalf("%d packets are missing", len(want))
			case err != nil || len(want) == 0 && wantErr != io.EOF:
				return
			case len(want) == 0:
				t.Fatalf("a packet that pcapgo does not find: % x", got.data)
			case got.link != want[0].link || !bytes.Equal(got.data, want[0].data) || !sameTime(file, got.at, want[0].at):
				t.Fatalf("got  %d %v % x\nwant %d %v % x", got.link, got.at, got.data, want[0].link, want[0].at, want[0].data)
			}
			want = want[1:]
		}
	})
}
