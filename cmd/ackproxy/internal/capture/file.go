package capture

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

const (
	maxPacket = 256 << 10 // bytes; what libpcap captures at most (MAXIMUM_SNAPLEN)
	maxBlock  = 16 << 20  // bytes of a pcapng block that is not just skipped; its options may be larger than its packet
)

// frame is one packet as the network interface saw it.
type frame struct {
	link linkType
	at   time.Time // zero where the file does not tell
	data []byte    // from the link header on, as far as captured; valid until the next frame is read
}

// file reads a capture.
type file struct {
	r      *bufio.Reader
	offset int64                  // of the next byte
	begin  int64                  // offset of the packet or block at hand
	read   func() (*frame, error) // the next packet or block; nil for a block without a packet
	buf    bytes.Buffer
	order  binary.ByteOrder

	link linkType      // pcap
	tick time.Duration // pcap: the unit of what a time has beyond the second

	unknown    bool // pcapng: the section is of a version that cannot be read
	interfaces []netInterface
}

// open tells the format of a capture.
func open(r *bufio.Reader) (*file, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	f := &file{r: r}
	if isNg(head) {
		f.read, f.order = f.block, binary.LittleEndian
		return f, nil
	}
	if f.order, f.tick = pcapMagic(head); f.order == nil {
		return nil, fmt.Errorf("it begins with % x, which is neither pcap nor pcapng", head)
	}
	f.read = f.record
	return f, f.header()
}

// next is the next packet. It returns io.EOF where the file ends between packets.
func (f *file) next() (p *frame, err error) {
	for p == nil && err == nil {
		f.begin = f.offset
		p, err = f.read()
	}
	return p, f.failed(err)
}

// failed is err with the place.
func (f *file) failed(err error) error {
	if err == nil || err == io.EOF && f.offset == f.begin {
		return err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("at byte %d: %w", f.begin, err)
}

// take is the next n bytes, valid until the next take. The buffer grows with what the file has, not with what it claims to have.
func (f *file) take(n int64) ([]byte, error) {
	f.buf.Reset()
	got, err := io.CopyN(&f.buf, f.r, n)
	f.offset += got
	return f.buf.Bytes(), err
}

func (f *file) skip(n int64) error {
	got, err := io.CopyN(io.Discard, f.r, n)
	f.offset += got
	return err
}

// pcapMagic is what the first four bytes of a pcap file say (IETF draft-ietf-opsawg-pcap); order is nil if they do not begin one.
func pcapMagic(head []byte) (order binary.ByteOrder, tick time.Duration) {
	for _, order := range byteOrders {
		switch order.Uint32(head) {
		case 0xa1b2c3d4:
			return order, time.Microsecond
		case 0xa1b23c4d:
			return order, time.Nanosecond
		}
	}
	return nil, 0
}

var byteOrders = [...]binary.ByteOrder{binary.LittleEndian, binary.BigEndian}

func (f *file) header() error {
	b, err := f.take(24)
	if err != nil {
		return f.failed(err)
	}
	if major, minor := f.order.Uint16(b[4:]), f.order.Uint16(b[6:]); major != 2 || minor != 4 {
		return fmt.Errorf("pcap of version %d.%d, only 2.4 is known", major, minor)
	}
	f.link = linkType(f.order.Uint32(b[20:])) // the upper half is about checksums
	return nil
}

// record reads a packet of a pcap file.
func (f *file) record() (*frame, error) {
	head, err := f.take(16)
	if err != nil {
		return nil, err
	}
	at := time.Unix(int64(f.order.Uint32(head)), int64(f.order.Uint32(head[4:]))*int64(f.tick)).UTC()
	captured, sent := f.order.Uint32(head[8:]), f.order.Uint32(head[12:])
	if captured > maxPacket || captured > sent {
		return nil, fmt.Errorf("%d bytes captured of a packet of %d bytes, at most %d are possible", captured, sent, min(sent, maxPacket))
	}
	data, err := f.take(int64(captured))
	return &frame{link: f.link, at: at, data: data}, err
}

// Types of blocks in pcapng (IETF draft-ietf-opsawg-pcapng, section 4).
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
)

// netInterface is what packets need to know of an Interface Description Block.
type netInterface struct {
	link    linkType
	snap    uint32 // bytes that are captured of a packet at most; 0: no limit
	ticks   uint64 // of its clock in a second
	seconds int64  // added to its times
}

// block reads a block of a pcapng file.
func (f *file) block() (*frame, error) {
	head, err := f.take(8)
	if err != nil {
		return nil, err
	}
	kind := f.order.Uint32(head) // a section's is the same in both byte orders
	if kind == blockSection {
		if err := f.sectionOrder(); err != nil {
			return nil, err
		}
	}
	size := int64(f.order.Uint32(head[4:])) - 12 // without type, length, and the length again at the end
	fixed := int64(0)                            // bytes that a block of the type always has
	switch kind {
	case blockSection:
		fixed = 16
	case blockInterface:
		fixed = 8
	case blockPacket, blockEnhanced:
		fixed = 20
	case blockSimple:
		fixed = 4
	}
	skipped := fixed == 0 || f.unknown && kind != blockSection
	if size < 0 || !skipped && (size < fixed || size > maxBlock) {
		return nil, fmt.Errorf("a block of type %#x cannot have a length of %d bytes", kind, size+12)
	}
	if skipped {
		return nil, f.skip(size + 4)
	}
	b, err := f.take(size + 4)
	if err != nil {
		return nil, err
	}
	return f.known(kind, b[:size])
}

// sectionOrder learns the byte order of a section from its header.
func (f *file) sectionOrder() error {
	magic, err := f.r.Peek(4)
	if err != nil {
		return err
	}
	for _, order := range byteOrders {
		if order.Uint32(magic) == 0x1a2b3c4d {
			f.order = order
			return nil
		}
	}
	return fmt.Errorf("the section's byte order is % x", magic)
}

// known reads the body of a block. It has what each block of the type has.
func (f *file) known(kind uint32, b []byte) (*frame, error) {
	switch kind {
	case blockSection:
		f.unknown, f.interfaces = f.order.Uint16(b[4:]) != 1, nil
		return nil, nil
	case blockInterface:
		i, err := f.readInterface(b)
		f.interfaces = append(f.interfaces, i)
		return nil, err
	case blockSimple: // it is of the first interface, which tells how much of it was captured
		captured := f.order.Uint32(b)
		if len(f.interfaces) > 0 && f.interfaces[0].snap > 0 {
			captured = min(captured, f.interfaces[0].snap)
		}
		return f.packet(0, captured, b[4:])
	}
	id := f.order.Uint32(b)
	if kind == blockPacket {
		id = uint32(f.order.Uint16(b))
	}
	p, err := f.packet(id, f.order.Uint32(b[12:]), b[20:])
	if err == nil {
		p.at = f.interfaces[id].time(uint64(f.order.Uint32(b[4:]))<<32 | uint64(f.order.Uint32(b[8:])))
	}
	return p, err
}

func (f *file) packet(id, captured uint32, b []byte) (*frame, error) {
	if int64(id) >= int64(len(f.interfaces)) {
		return nil, fmt.Errorf("a packet of interface %d, the section has %d so far", id, len(f.interfaces))
	}
	if limit := min(len(b), maxPacket); int64(captured) > int64(limit) {
		return nil, fmt.Errorf("%d bytes captured of a packet, at most %d are possible", captured, limit)
	}
	return &frame{link: f.interfaces[id].link, data: b[:captured]}, nil
}

// readInterface reads an Interface Description Block: of its options, if_tsresol (9) and if_tsoffset (14).
func (f *file) readInterface(b []byte) (netInterface, error) {
	i := netInterface{link: linkType(f.order.Uint16(b)), snap: f.order.Uint32(b[4:]), ticks: 1e6}
	for b = b[8:]; len(b) >= 4; {
		code, size := f.order.Uint16(b), int(f.order.Uint16(b[2:]))
		if code == 0 { // opt_endofopt
			break
		}
		if size > len(b)-4 {
			return i, fmt.Errorf("option %d has %d bytes, there are %d", code, size, len(b)-4)
		}
		value := b[4 : 4+size]
		if code == 9 && size >= 1 {
			i.ticks = ticksPerSecond(value[0])
		}
		if code == 14 && size >= 8 {
			i.seconds = int64(f.order.Uint64(value))
		}
		b = b[min(4+(size+3)&^3, len(b)):]
	}
	if i.ticks == 0 {
		return i, errors.New("the resolution of the interface's clock is finer than can be")
	}
	return i, nil
}

// ticksPerSecond is what an if_tsresol says: a power of 2 if the top bit is set, of 10 otherwise. It is 0 where that does not fit.
func ticksPerSecond(resolution byte) uint64 {
	if resolution >= 0x80 {
		return 1 << (resolution & 0x7f)
	}
	if resolution > 19 {
		return 0
	}
	ticks := uint64(1)
	for range resolution {
		ticks *= 10
	}
	return ticks
}

func (i netInterface) time(clock uint64) time.Time {
	hi, lo := bits.Mul64(clock%i.ticks, 1e9)
	nanoseconds, _ := bits.Div64(hi, lo, i.ticks)
	return time.Unix(int64(clock/i.ticks)+i.seconds, int64(nanoseconds)).UTC()
}
