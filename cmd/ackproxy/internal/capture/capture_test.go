package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// packet is one TCP segment of a test.
type packet struct {
	from, to     string
	seq, acked   uint32
	syn, ack     bool
	data         string
	capturedOnly int // bytes of the packet that the capture kept; 0: all
}

const (
	client4, server4 = "10.0.0.1:50000", "10.0.0.2:9092"
	client6, server6 = "[fd00::1]:50000", "[fd00::2]:9092"
)

// ip is the packet from its IP header on.
func (p packet) ip(t testing.TB) (b []byte, version int) {
	t.Helper()
	from, to := netip.MustParseAddrPort(p.from), netip.MustParseAddrPort(p.to)
	tcp := &layers.TCP{SrcPort: layers.TCPPort(from.Port()), DstPort: layers.TCPPort(to.Port()), Seq: p.seq, Ack: p.acked, SYN: p.syn, ACK: p.ack,
		Window: 1000}
	var network gopacket.SerializableLayer
	version = 4
	if from.Addr().Is4() {
		n := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
		network = n
		check(t, tcp.SetNetworkLayerForChecksum(n))
	} else {
		version = 6
		n := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
		network = n
		check(t, tcp.SetNetworkLayerForChecksum(n))
	}
	buf := gopacket.NewSerializeBuffer()
	check(t, gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, network, tcp, gopacket.Payload(p.data)))
	return buf.Bytes(), version
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// framed puts what a link type has in front of IP.
func framed(link layers.LinkType, ip []byte, version int) []byte {
	etherType := []byte{0x08, 0x00}
	family := uint32(2)
	if version == 6 {
		etherType, family = []byte{0x86, 0xdd}, 24
	}
	var head []byte
	switch link {
	case layers.LinkTypeEthernet:
		head = append(make([]byte, 12), etherType...)
		for len(head)+len(ip) < 60 {
			ip = append(ip, 0) // Ethernet pads short packets
		}
	case layers.LinkTypeLinuxSLL:
		head = append([]byte{0, 0, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0}, etherType...)
	case layers.LinkTypeLinuxSLL2:
		head = append(append([]byte{}, etherType...), 0, 0, 0, 0, 0, 1, 3, 4, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0)
	case layers.LinkTypeNull:
		head = binary.LittleEndian.AppendUint32(nil, family)
	case layers.LinkTypeLoop:
		head = binary.BigEndian.AppendUint32(nil, family)
	}
	return append(head, ip...)
}

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func pcap(t testing.TB, link layers.LinkType, packets ...packet) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	check(t, w.WriteFileHeader(65536, link))
	for i, p := range packets {
		ip, version := p.ip(t)
		b := framed(link, ip, version)
		ci := gopacket.CaptureInfo{Timestamp: epoch.Add(time.Duration(i) * time.Second), CaptureLength: len(b), Length: len(b)}
		if p.capturedOnly > 0 {
			b = b[:p.capturedOnly]
			ci.CaptureLength = len(b)
		}
		check(t, w.WritePacket(ci, b))
	}
	return out.Bytes()
}

// read renders what Read emits: "C0:data" for the client's bytes of the first connection, "S0~5:data" for the server's after 5 that are
// missing, "C0." for the end.
func read(t testing.TB, capture []byte) (string, error) {
	t.Helper()
	var out []string
	ids := map[*Conn]int{}
	err := Read(bytes.NewReader(capture), func(b []byte) bool { return bytes.HasPrefix(b, []byte("ask")) }, func(c Chunk) error {
		if _, ok := ids[c.Conn]; !ok {
			ids[c.Conn] = len(ids)
		}
		s := fmt.Sprintf("%c%d", "SC"[b2i(c.FromClient)], ids[c.Conn])
		if c.Missing > 0 {
			s += fmt.Sprintf("~%d", c.Missing)
		}
		if c.End {
			s += "."
		} else {
			s += ":" + string(c.Data)
		}
		out = append(out, s)
		return nil
	})
	return strings.Join(out, " "), err
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// conversation is a handshake, a question and its answer.
func conversation(client, server string) []packet {
	return []packet{
		{from: client, to: server, seq: 100, syn: true},
		{from: server, to: client, seq: 900, syn: true, ack: true},
		{from: client, to: server, seq: 101, ack: true},
		{from: client, to: server, seq: 101, ack: true, data: "question"},
		{from: server, to: client, seq: 901, ack: true, data: "answer"},
	}
}

func TestLinkTypes(t *testing.T) {
	for _, link := range []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2, layers.LinkTypeNull,
		layers.LinkTypeLoop, layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6} {
		if link != layers.LinkTypeIPv6 {
			if got, err := read(t, pcap(t, link, conversation(client4, server4)...)); got != "C0:question S0:answer C0. S0." || err != nil {
				t.Errorf("IPv4 on %v (%d): %s, %v", link, link, got, err)
			}
		}
		if link != layers.LinkTypeIPv4 {
			if got, err := read(t, pcap(t, link, conversation(client6, server6)...)); got != "C0:question S0:answer C0. S0." || err != nil {
				t.Errorf("IPv6 on %v (%d): %s, %v", link, link, got, err)
			}
		}
	}
}

// A pcapng file may have interfaces of several kinds.
func TestPcapng(t *testing.T) {
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkTypeEthernet)
	check(t, err)
	loop, err := w.AddInterface(pcapgo.NgInterface{LinkType: layers.LinkTypeNull, SnapLength: 65536})
	check(t, err)
	for i, p := range conversation(client4, server4) {
		link, iface := layers.LinkTypeEthernet, 0
		if i == 4 {
			link, iface = layers.LinkTypeNull, loop
		}
		ip, version := p.ip(t)
		b := framed(link, ip, version)
		check(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: epoch, CaptureLength: len(b), Length: len(b), InterfaceIndex: iface}, b))
	}
	check(t, w.Flush())
	if !IsCapture(out.Bytes()[:4]) {
		t.Error("not taken for a capture")
	}
	if got, err := read(t, out.Bytes()); got != "C0:question S0:answer C0. S0." || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestReassembly(t *testing.T) {
	c, s := client4, server4
	syn, synAck := packet{from: c, to: s, seq: 100, syn: true}, packet{from: s, to: c, seq: 900, syn: true, ack: true}
	from := func(seq uint32, data string) packet { return packet{from: c, to: s, seq: seq, ack: true, data: data} }
	back := func(seq uint32, data string) packet { return packet{from: s, to: c, seq: seq, ack: true, data: data} }
	for _, k := range []struct {
		name    string
		packets []packet
		want    string
	}{
		{"in order", []packet{syn, from(101, "ab"), from(103, "cd")}, "C0:ab C0:cd C0."},
		{"out of order", []packet{syn, from(103, "cd"), from(105, "ef"), from(101, "ab")}, "C0:ab C0:cd C0:ef C0."},
		{"sent twice", []packet{syn, from(101, "ab"), from(101, "ab"), from(103, "cd"), from(101, "abcd")}, "C0:ab C0:cd C0."},
		{"overlap", []packet{syn, from(101, "abc"), from(102, "bcdef"), from(103, "c")}, "C0:abc C0:def C0."},
		{"overlap out of order", []packet{syn, from(104, "d"), from(103, "cdef"), from(101, "abcd")}, "C0:abcd C0:ef C0."},
		{"gap", []packet{syn, from(101, "ab"), from(105, "ef"), from(110, "kl")}, "C0:ab C0~2:ef C0~3:kl C0."},
		{"gap that the server has got", []packet{syn, from(101, "ab"), from(105, "ef"), {from: s, to: c, seq: 901, ack: true, acked: 107, data: "x"}, from(107, "gh")},
			"C0:ab C0~2:ef S0:x C0:gh C0. S0."},
		{"gap that the server has not got", []packet{syn, from(101, "ab"), from(105, "ef"), {from: s, to: c, seq: 901, ack: true, acked: 103, data: "x"}, from(103, "cd")},
			"C0:ab S0:x C0:cd C0:ef C0. S0."},
		{"sequence numbers wrap", []packet{{from: c, to: s, seq: 0xfffffffd, syn: true}, from(0xfffffffe, "ab"), from(2, "ef"), from(0, "cd")}, "C0:ab C0:cd C0:ef C0."},
		{"keep-alive", []packet{syn, from(101, "ab"), from(102, "b"), from(103, "cd")}, "C0:ab C0:cd C0."},
		{"no handshake", []packet{from(55, "ask"), back(77, "reply")}, "C0:ask S0:reply C0. S0."},
		{"no handshake, the server first", []packet{back(77, "reply"), from(55, "ask")}, "S0:reply C0:ask S0. C0."},
		{"only the server's half of the handshake", []packet{synAck, back(901, "ask")}, "S0:ask S0."},
		{"ports used again", []packet{syn, from(101, "ab"), {from: c, to: s, seq: 5000, syn: true}, from(5001, "cd")}, "C0:ab C0. C1:cd C1."},
		{"handshake sent twice", []packet{syn, syn, from(101, "ab")}, "C0:ab C0."},
		{"no bytes", []packet{syn, synAck, from(101, "")}, "C0. S0."},
		{"two connections", []packet{from(55, "ask1"), {from: "10.0.0.9:1", to: s, seq: 5, data: "ask2"}, back(77, "reply1")}, "C0:ask1 C1:ask2 S0:reply1 C0. S0. C1."},
		{"packet cut by the capture", []packet{syn, {from: c, to: s, seq: 101, data: "abcdef", capturedOnly: 43}, from(107, "gh")}, "C0:abc C0~3:gh C0."},
	} {
		t.Run(k.name, func(t *testing.T) {
			got, err := read(t, pcap(t, layers.LinkTypeRaw, k.packets...))
			if got != k.want || err != nil {
				t.Errorf("got  %s (%v)\nwant %s", got, err, k.want)
			}
		})
	}
}

// A gap is given up when what waits for it grows too large.
func TestGapIsGivenUp(t *testing.T) {
	packets := []packet{{from: client4, to: server4, seq: 0, syn: true}}
	big := strings.Repeat("x", 60000)
	for i := range maxHeld/len(big) + 2 {
		packets = append(packets, packet{from: client4, to: server4, seq: uint32(2 + i*len(big)), data: big})
	}
	capture := pcap(t, layers.LinkTypeRaw, packets...)
	total, before := 0, -1
	check(t, Read(bytes.NewReader(capture), nil, func(c Chunk) error {
		if c.Missing > 0 {
			before = total
			if c.Missing != 1 {
				t.Errorf("%d bytes missing", c.Missing)
			}
		}
		total += len(c.Data)
		return nil
	}))
	if want := len(big) * (len(packets) - 1); total != want || before != 0 {
		t.Errorf("%d bytes, want %d; %d before the gap", total, want, before)
	}
}

func TestBrokenCaptures(t *testing.T) {
	whole := pcap(t, layers.LinkTypeRaw, conversation(client4, server4)...)
	if got, err := read(t, whole[:len(whole)-3]); got != "C0:question C0. S0." || err == nil {
		t.Errorf("cut: %s, %v", got, err)
	}
	if got, err := read(t, whole[:10]); got != "" || err == nil {
		t.Errorf("cut header: %s, %v", got, err)
	}
	if IsCapture([]byte{0xa1}) || IsCapture([]byte("0000001c")) {
		t.Error("taken for a capture")
	}
	stop := fmt.Errorf("enough")
	if err := Read(bytes.NewReader(whole), nil, func(Chunk) error { return stop }); err != stop {
		t.Errorf("emit's error came back as %v", err)
	}
	if err := Read(strings.NewReader(""), nil, nil); err == nil || !strings.Contains(err.Error(), io.EOF.Error()) {
		t.Errorf("empty: %v", err)
	}
}

// No capture, however broken, takes the reader down.
func FuzzRead(f *testing.F) {
	for _, link := range []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL2, layers.LinkTypeNull} {
		f.Add(pcap(f, link, conversation(client6, server6)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = Read(bytes.NewReader(b), func([]byte) bool { return true }, func(c Chunk) error {
			if c.Missing < 0 || c.Conn == nil {
				t.Errorf("%d bytes missing", c.Missing)
			}
			return nil
		})
	})
}
