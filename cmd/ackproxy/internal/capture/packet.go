package capture

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// linkType is what a frame begins with (https://www.tcpdump.org/linktypes.html).
type linkType uint16

const (
	linkNull     linkType = 0 // BSD loopback: an address family in the byte order of the machine
	linkEthernet linkType = 1
	linkRawBSD   linkType = 12 // raw IP, where a program wrote its system's number of it
	linkRawOpen  linkType = 14
	linkRaw      linkType = 101
	linkLoop     linkType = 108 // OpenBSD loopback: an address family in network byte order
	linkLinux    linkType = 113 // Linux cooked
	linkIPv4     linkType = 228
	linkIPv6     linkType = 229
	linkLinux2   linkType = 276 // Linux cooked, version 2
)

// segment is what the streams need of a TCP segment (RFC 9293, section 3.1).
type segment struct {
	from, to netip.AddrPort
	seq      uint32 // of its first byte
	acked    uint32 // where ack: what its sender has got so far ends before this
	syn, ack bool
	data     []byte // as far as captured
	at       time.Time
}

// segment is the TCP segment in a frame; ok is false if there is none. Fragments of IP packets, and what is in tunnels, are none.
func (f frame) segment() (s segment, ok bool) {
	from, to, b := tcpOf(ipOf(f.link, f.data))
	if len(b) < 20 {
		return s, false
	}
	header := int(b[12]>>4) * 4
	if header < 20 {
		return s, false
	}
	return segment{
		from: netip.AddrPortFrom(from, binary.BigEndian.Uint16(b)),
		to:   netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])),
		seq:  binary.BigEndian.Uint32(b[4:]), acked: binary.BigEndian.Uint32(b[8:]),
		syn:  b[13]&0x02 != 0,
		ack:  b[13]&0x10 != 0,
		data: b[min(header, len(b)):], // the capture may have cut even the options
		at:   f.at,
	}, true
}

// ipOf is a frame from its IP header on; nil if it has none.
func ipOf(link linkType, b []byte) []byte {
	switch link {
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		return b
	case linkNull, linkLoop:
		return ofFamily(b)
	case linkEthernet:
		return ofEtherType(b, 12, 14)
	case linkLinux:
		return ofEtherType(b, 14, 16)
	case linkLinux2:
		return ofEtherType(b, 0, 20)
	}
	return nil
}

// ofFamily is what follows an address family of IP. That of IPv6 depends on the system.
func ofFamily(b []byte) []byte {
	if len(b) < 4 {
		return nil
	}
	family := binary.LittleEndian.Uint32(b)
	if family > 0xffff { // families are small: it is the other byte order
		family = binary.BigEndian.Uint32(b)
	}
	if !slices.Contains([]uint32{2, 10, 24, 28, 30}, family) {
		return nil
	}
	return b[4:]
}

// ofEtherType is what follows a header whose EtherType, at typeAt, is that of IP. There may be VLAN tags in between (IEEE 802.1Q).
func ofEtherType(b []byte, typeAt, size int) []byte {
	for len(b) >= size {
		etherType := binary.BigEndian.Uint16(b[typeAt:])
		b = b[size:]
		switch etherType {
		case 0x0800, 0x86dd: // IPv4, IPv6
			return b
		case 0x8100, 0x88a8, 0x9100: // 802.1Q, 802.1ad, and what came before that
			typeAt, size = 2, 4
		default:
			return nil
		}
	}
	return nil
}

// Protocols in IP (IANA "Assigned Internet Protocol Numbers").
const (
	protocolHopByHop    = 0
	protocolTCP         = 6
	protocolRouting     = 43
	protocolFragment    = 44
	protocolDestination = 60
)

// tcpOf is the addresses and the TCP segment of an IP packet; the segment is nil if there is none.
func tcpOf(b []byte) (from, to netip.Addr, tcp []byte) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), payload4(b)
	case len(b) >= 40 && b[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), payload6(b)
	}
	return from, to, nil
}

// payload4 is the TCP segment of an IPv4 packet (RFC 791, section 3.1) that has 20 bytes at least.
func payload4(b []byte) []byte {
	header, protocol, fragment := int(b[0]&0x0f)*4, b[9], binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	b = upTo(b, int(binary.BigEndian.Uint16(b[2:])))
	if header < 20 || header > len(b) || protocol != protocolTCP || fragment {
		return nil
	}
	return b[header:]
}

// payload6 is the TCP segment of an IPv6 packet (RFC 8200, sections 3 and 4) that has 40 bytes at least.
func payload6(b []byte) []byte {
	next := b[6]
	b = upTo(b[40:], int(binary.BigEndian.Uint16(b[4:])))
	for next != protocolTCP {
		if len(b) < 8 {
			return nil
		}
		size := 8 + int(b[1])*8
		switch next {
		case protocolHopByHop, protocolRouting, protocolDestination:
		case protocolFragment:
			if size = 8; binary.BigEndian.Uint16(b[2:])&0xfff9 != 0 { // neither offset nor more fragments: all of the packet is here
				return nil
			}
		default:
			return nil
		}
		if size > len(b) {
			return nil
		}
		next, b = b[0], b[size:]
	}
	return b
}

// upTo drops what is after an IP packet in a frame: Ethernet pads. A length of 0 is that of a packet which the network card is to split,
// or of more than 64 KiB: it goes as far as the frame.
func upTo(b []byte, length int) []byte {
	if length == 0 {
		return b
	}
	return b[:min(length, len(b))]
}
