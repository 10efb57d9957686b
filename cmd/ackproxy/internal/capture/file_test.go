package capture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
)

// blocks writes pcapng without gopacket, whose writer knows one byte order and no oddities.
type blocks struct {
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	out []byte
}

func (b *blocks) block(kind uint32, body []byte) {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	length := uint32(len(body) + 12)
	b.out = b.order.AppendUint32(b.out, kind)
	b.out = b.order.AppendUint32(b.out, length)
	b.out = append(b.out, body...)
	b.out = b.order.AppendUint32(b.out, length)
}

func (b *blocks) section(major, minor uint16) {
	body := b.order.AppendUint32(nil, 0x1a2b3c4d)
	body = b.order.AppendUint16(body, major)
	body = b.order.AppendUint16(body, minor)
	b.block(blockSection, b.order.AppendUint64(body, math.MaxUint64))
}

type option struct {
	code  uint16
	value []byte
}

func (b *blocks) iface(link layers.LinkType, snap uint32, options ...option) {
	body := b.order.AppendUint16(nil, uint16(link))
	body = b.order.AppendUint32(append(body, 0, 0), snap)
	for _, o := range options {
		body = b.order.AppendUint16(body, o.code)
		body = b.order.AppendUint16(body, uint16(len(o.value)))
		body = append(body, o.value...)
		for len(body)%4 != 0 {
			body = append(body, 0)
		}
	}
	b.block(blockInterface, body)
}

func (b *blocks) enhanced(id uint32, clock uint64, captured uint32, data []byte) {
	body := b.order.AppendUint32(nil, id)
	body = b.order.AppendUint32(body, uint32(clock>>32))
	body = b.order.AppendUint32(body, uint32(clock))
	body = b.order.AppendUint32(body, captured)
	b.block(blockEnhanced, append(b.order.AppendUint32(body, captured), data...))
}

func (b *blocks) obsolete(id uint16, clock uint64, data []byte) {
	body := b.order.AppendUint16(nil, id)
	body = b.order.AppendUint16(body, 7) // packets lost
	body = b.order.AppendUint32(body, uint32(clock>>32))
	body = b.order.AppendUint32(body, uint32(clock))
	body = b.order.AppendUint32(body, uint32(len(data)))
	b.block(blockPacket, append(b.order.AppendUint32(body, uint32(len(data))), data...))
}

func (b *blocks) simple(size uint32, data []byte) {
	b.block(blockSimple, append(b.order.AppendUint32(nil, size), data...))
}

// frames is what a file has: link type, time and length of every packet.
func frames(b []byte) (string, error) {
	f, err := open(bufio.NewReader(bytes.NewReader(b)))
	if err != nil {
		return "", err
	}
	var out []string
	for {
		p, err := f.next()
		if err == io.EOF {
			return strings.Join(out, " "), nil
		}
		if err != nil {
			return strings.Join(out, " "), err
		}
		at := "-"
		if !p.at.IsZero() {
			at = fmt.Sprintf("%d.%09d", p.at.Unix(), p.at.Nanosecond())
		}
		out = append(out, fmt.Sprintf("%d@%s:%s", p.link, at, p.data))
	}
}

func TestPcapngBlocks(t *testing.T) {
	for _, order := range []blocks{{order: binary.LittleEndian}, {order: binary.BigEndian}} {
		t.Run(order.order.String(), func(t *testing.T) {
			u64 := func(v int64) []byte { return order.order.AppendUint64(nil, uint64(v)) }
			for _, k := range []struct {
				name string
				make func(*blocks)
				want string
			}{
				{"microseconds", func(b *blocks) { b.iface(1, 0); b.enhanced(0, 5_000_001, 3, []byte("abc")) }, "1@5.000001000:abc"},
				{"clock of 64 bits", func(b *blocks) { b.iface(1, 0); b.enhanced(0, 1_800_000_000_000_001, 1, []byte("a")) }, "1@1800000000.000001000:a"},
				{"nanoseconds", func(b *blocks) { b.iface(1, 0, option{9, []byte{9}}); b.enhanced(0, 5_000_000_001, 0, nil) }, "1@5.000000001:"},
				{"seconds", func(b *blocks) { b.iface(1, 0, option{9, []byte{0}}); b.enhanced(0, 5, 0, nil) }, "1@5.000000000:"},
				{"10^-19", func(b *blocks) { b.iface(1, 0, option{9, []byte{19}}); b.enhanced(0, 15e18, 0, nil) }, "1@1.500000000:"},
				{"2^-10", func(b *blocks) { b.iface(1, 0, option{9, []byte{0x8a}}); b.enhanced(0, 5*1024+1, 0, nil) }, "1@5.000976562:"},
				{"2^-63", func(b *blocks) { b.iface(1, 0, option{9, []byte{0xbf}}); b.enhanced(0, 3<<62, 0, nil) }, "1@1.500000000:"},
				{"offset", func(b *blocks) { b.iface(1, 0, option{14, u64(100)}); b.enhanced(0, 5_000_001, 0, nil) }, "1@105.000001000:"},
				{"offset backwards", func(b *blocks) { b.iface(1, 0, option{14, u64(-7)}); b.enhanced(0, 5_000_001, 0, nil) }, "1@-2.000001000:"},
				{"options", func(b *blocks) {
					b.iface(1, 0, option{2, []byte("eth0!")}, option{9, []byte{}}, option{14, []byte{1}}, option{9, []byte{3}}, option{0, []byte{}}, option{9, []byte{9}})
					b.enhanced(0, 5001, 0, nil)
				}, "1@5.001000000:"},
				{"several interfaces", func(b *blocks) {
					b.iface(1, 0)
					b.iface(113, 0, option{9, []byte{3}})
					b.enhanced(1, 1, 1, []byte("a"))
					b.enhanced(0, 1, 1, []byte("b"))
				}, "113@0.001000000:a 1@0.000001000:b"},
				{"simple", func(b *blocks) { b.iface(101, 0); b.simple(5, []byte("abcde")) }, "101@-:abcde"},
				{"simple, cut", func(b *blocks) { b.iface(101, 3); b.simple(5, []byte("abc")) }, "101@-:abc"},
				{"obsolete", func(b *blocks) { b.iface(1, 0); b.iface(0, 0); b.obsolete(1, 5_000_001, []byte("abcde")) }, "0@5.000001000:abcde"},
				{"unknown blocks", func(b *blocks) {
					b.block(0x0bad, nil)
					b.iface(1, 0)
					b.block(0x80000001, make([]byte, 100_000))
					b.block(4, []byte("names"))
					b.enhanced(0, 0, 1, []byte("a"))
					b.block(5, []byte("statistics"))
				}, "1@0.000000000:a"},
				{"options after the packet", func(b *blocks) {
					b.iface(1, 0)
					b.enhanced(0, 0, 1, []byte("a\x00\x00\x00\x01\x00\x01\x00xxxx"))
					b.enhanced(0, 0, 1, []byte("b"))
				}, "1@0.000000000:a 1@0.000000000:b"},
				{"two sections", func(b *blocks) {
					b.iface(1, 0)
					b.enhanced(0, 0, 1, []byte("a"))
					other := blocks{order: binary.BigEndian}
					if b.order == other.order {
						other.order = binary.LittleEndian
					}
					other.section(1, 0)
					other.iface(113, 0, option{9, []byte{9}})
					other.enhanced(0, 1, 1, []byte("b"))
					b.out = append(b.out, other.out...)
				}, "1@0.000000000:a 113@0.000000001:b"},
				{"a section of version 2", func(b *blocks) {
					b.section(2, 0)
					b.block(blockEnhanced, nil)
					b.block(blockInterface, []byte("what?"))
					b.section(1, 2)
					b.iface(1, 0)
					b.enhanced(0, 0, 1, []byte("a"))
				}, "1@0.000000000:a"},
			} {
				b := order
				b.section(1, 0)
				k.make(&b)
				if got, err := frames(b.out); got != k.want || err != nil {
					t.Errorf("%s: got %s, %v; want %s", k.name, got, err, k.want)
				}
			}
		})
	}
}

// The clock of a section ends with it, and so do its interfaces.
func TestInterfacesAreOfASection(t *testing.T) {
	b := blocks{order: binary.LittleEndian}
	b.section(1, 0)
	b.iface(1, 0)
	b.section(1, 0)
	at := len(b.out)
	b.enhanced(0, 0, 1, []byte("a"))
	want := fmt.Sprintf("at byte %d: a packet of interface 0, the section has 0 so far", at)
	if got, err := frames(b.out); got != "" || err == nil || err.Error() != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestPcapHeaders(t *testing.T) {
	for _, k := range []struct {
		magic uint32
		want  string
	}{{0xa1b2c3d4, "1@3000000000.000007000:abc"}, {0xa1b23c4d, "1@3000000000.000000007:abc"}} {
		for _, order := range []blocks{{order: binary.LittleEndian}, {order: binary.BigEndian}} {
			b := order.order.AppendUint32(nil, k.magic)
			b = order.order.AppendUint16(b, 2)
			b = order.order.AppendUint16(b, 4)
			for _, v := range []uint32{0, 0, 65536, 0xf4000001, 3_000_000_000, 7, 3, 9} { // the link type says also that there are checksums
				b = order.order.AppendUint32(b, v)
			}
			b = append(b, "abc"...)
			if got, err := frames(b); got != k.want || err != nil || !IsCapture(b) {
				t.Errorf("%#x, %v: got %s, %v; want %s", k.magic, order.order, got, err, k.want)
			}
			b[5] ^= 3
			b[4] ^= 3
			if _, err := frames(b); err == nil || !strings.Contains(err.Error(), "only 2.4 is known") {
				t.Errorf("other version: %v", err)
			}
		}
	}
}

// Lengths that lie are errors that tell where, and cost no memory.
func TestLyingLengths(t *testing.T) {
	pcapOf := func(captured, sent uint32) []byte {
		b := pcap(t, layers.LinkTypeRaw)
		for _, v := range []uint32{0, 0, captured, sent} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return append(b, "abc"...)
	}
	ng := func(make func(b *blocks)) []byte {
		b := blocks{order: binary.LittleEndian}
		b.section(1, 0)
		b.iface(1, 0)
		make(&b)
		return b.out
	}
	length := func(kind, n uint32) []byte {
		return ng(func(b *blocks) {
			b.out = binary.LittleEndian.AppendUint32(b.out, kind)
			b.out = append(binary.LittleEndian.AppendUint32(b.out, n), make([]byte, 40)...)
		})
	}
	for _, k := range []struct {
		name string
		file []byte
		want string
	}{
		{"packet of 4 GiB", pcapOf(math.MaxUint32, math.MaxUint32), "at byte 24: 4294967295 bytes captured of a packet of 4294967295 bytes, at most 262144 are possible"},
		{"packet that ends", pcapOf(maxPacket, maxPacket), "at byte 24: unexpected EOF"},
		{"more than was sent", pcapOf(3, 2), "at byte 24: 3 bytes captured of a packet of 2 bytes, at most 2 are possible"},
		{"block of 4 GiB", length(blockEnhanced, math.MaxUint32), "at byte 48: a block of type 0x6 cannot have a length of 4294967295 bytes"},
		{"unknown block of 4 GiB", length(77, math.MaxUint32), "at byte 48: unexpected EOF"},
		{"block of 16 MiB", length(blockEnhanced, maxBlock), "at byte 48: unexpected EOF"},
		{"block of nothing", length(77, 0), "at byte 48: a block of type 0x4d cannot have a length of 0 bytes"},
		{"block of too little", length(blockEnhanced, 31), "at byte 48: a block of type 0x6 cannot have a length of 31 bytes"},
		{"packet larger than its block", ng(func(b *blocks) { b.enhanced(0, 0, 5, []byte("abc")) }), "at byte 48: 5 bytes captured of a packet, at most 4 are possible"},
		{"packet too large", ng(func(b *blocks) { b.enhanced(0, 0, maxPacket+1, make([]byte, maxPacket+4)) }),
			"at byte 48: 262145 bytes captured of a packet, at most 262144 are possible"},
		{"simple packet larger than its block", ng(func(b *blocks) { b.simple(math.MaxUint32, nil) }),
			"at byte 48: 4294967295 bytes captured of a packet, at most 0 are possible"},
		{"no such interface", ng(func(b *blocks) { b.enhanced(math.MaxUint32, 0, 0, nil) }), "at byte 48: a packet of interface 4294967295, the section has 1 so far"},
		{"option", ng(func(b *blocks) { b.block(blockInterface, []byte{1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 255, 255, 6, 0, 0, 0}) }),
			"at byte 48: option 9 has 65535 bytes, there are 4"},
		{"clock of 2^-64", ng(func(b *blocks) { b.iface(1, 0, option{9, []byte{0xc0}}) }), "at byte 48: the resolution of the interface's clock is finer than can be"},
		{"clock of 10^-20", ng(func(b *blocks) { b.iface(1, 0, option{9, []byte{20}}) }), "at byte 48: the resolution of the interface's clock is finer than can be"},
		{"byte order", ng(func(b *blocks) { b.block(blockSection, make([]byte, 16)) }), "at byte 48: the section's byte order is 00 00 00 00"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := frames(k.file)
		runtime.ReadMemStats(&after)
		if err == nil || err.Error() != k.want {
			t.Errorf("%s: got  %v\nwant %s", k.name, err, k.want)
		}
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<10+16*len(k.file)); got > most { // a buffer that doubles
			t.Errorf("%s: allocated %d bytes, at most %d expected", k.name, got, most)
		}
	}
}

// A file may end anywhere: between packets that is its end, else an error that tells where the packet begins.
func TestCutAnywhere(t *testing.T) {
	ng := blocks{order: binary.BigEndian}
	starts := map[int]bool{}
	add := func(write func()) { starts[len(ng.out)] = true; write() }
	add(func() { ng.section(1, 0) })
	add(func() { ng.iface(layers.LinkTypeRaw, 0, option{9, []byte{9}}) })
	for _, p := range conversation(client4, server4) {
		ip, _ := p.ip(t)
		add(func() { ng.enhanced(0, 0, uint32(len(ip)), ip) })
		add(func() { ng.block(0x0bad, ip) })
	}
	testCuts(t, ng.out, starts)

	file, starts := pcap(t, layers.LinkTypeRaw), map[int]bool{0: true}
	for _, p := range conversation(client4, server4) {
		starts[len(file)] = true
		file = append(file, pcap(t, layers.LinkTypeRaw, p)[24:]...)
	}
	testCuts(t, file, starts)
}

func testCuts(t *testing.T, file []byte, starts map[int]bool) {
	t.Helper()
	last := 0
	for n := range len(file) {
		if starts[n] {
			last = n
		}
		_, err := read(t, file[:n])
		switch {
		case n < 4: // not even the magic number
			if err == nil {
				t.Errorf("cut at %d: no error", n)
			}
		case starts[n]:
			if err != nil {
				t.Errorf("cut at %d, between packets: %v", n, err)
			}
		case !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), fmt.Sprintf("at byte %d: ", last)):
			t.Errorf("cut at %d, in what begins at %d: %v", n, last, err)
		}
	}
}

// What came before a broken packet is read, with its times.
func TestTimeOfPackets(t *testing.T) {
	whole := pcap(t, layers.LinkTypeRaw, conversation(client4, server4)...)
	var at []time.Time
	err := Read(bytes.NewReader(append(whole, 1, 2, 3)), nil, func(c Chunk) error {
		if !c.End {
			at = append(at, c.Time)
		}
		return nil
	})
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(at) != 2 || at[0] != epoch.Add(3*time.Second) || at[1] != epoch.Add(4*time.Second) {
		t.Errorf("%v, %v", at, err)
	}
}
