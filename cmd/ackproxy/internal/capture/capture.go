// Package capture reads the TCP streams out of a packet capture: pcap and pcapng, Ethernet, Linux cooked, loopback and raw IP, in
// IPv4 and IPv6. It puts segments in order and says who the client is; what the bytes mean is the caller's.
package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Conn is one TCP connection.
type Conn struct {
	Client, Server string // host:port
}

// Chunk is the next bytes of one direction of a connection.
type Chunk struct {
	Conn       *Conn
	FromClient bool
	Time       time.Time // of the packet that carried the bytes
	Missing    int       // bytes of the stream before Data that the capture lacks
	Data       []byte    // valid during the call
	End        bool      // nothing follows in this direction
}

// IsCapture says whether head, the first four bytes of a file, begins a capture.
func IsCapture(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	switch [4]byte(head) {
	case [4]byte{0xa1, 0xb2, 0xc3, 0xd4}, [4]byte{0xd4, 0xc3, 0xb2, 0xa1},
		[4]byte{0xa1, 0xb2, 0x3c, 0x4d}, [4]byte{0x4d, 0x3c, 0xb2, 0xa1}:
		return true
	}
	return isNg(head)
}

func isNg(head []byte) bool { return [4]byte(head) == [4]byte{0x0a, 0x0d, 0x0d, 0x0a} }

// source yields packets with their link type.
type source func() (data []byte, ci gopacket.CaptureInfo, link layers.LinkType, err error)

func open(r *bufio.Reader) (source, error) {
	head, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	if isNg(head) {
		ng, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			return nil, err
		}
		return func() ([]byte, gopacket.CaptureInfo, layers.LinkType, error) {
			data, ci, err := ng.ReadPacketData()
			link := ng.LinkType()
			if err == nil && len(ci.AncillaryData) > 0 {
				if l, ok := ci.AncillaryData[0].(layers.LinkType); ok {
					link = l
				}
			}
			return data, ci, link, err
		}, nil
	}
	p, err := pcapgo.NewReader(r)
	if err != nil {
		return nil, err
	}
	return func() ([]byte, gopacket.CaptureInfo, layers.LinkType, error) {
		data, ci, err := p.ReadPacketData()
		return data, ci, p.LinkType(), err
	}, nil
}

// Read calls emit for every piece of every stream in r, in the order of the capture. request says whether the first bytes of a stream
// look like a client's: it decides who the client is where the capture lacks the handshake. An error of emit ends Read and is
// returned as it is. A capture that ends inside a packet is read as far as it goes, and io.ErrUnexpectedEOF returned.
func Read(r io.Reader, request func([]byte) bool, emit func(Chunk) error) error {
	next, err := open(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return fmt.Errorf("not a readable capture: %w", err)
	}
	a := assembler{conns: map[flow]*conn{}, request: request, emit: emit}
	var readErr error
	for {
		data, ci, link, err := next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				readErr = fmt.Errorf("reading the capture: %w", err)
			}
			break
		}
		p := gopacket.NewPacket(data, decoderOf(link), gopacket.DecodeOptions{Lazy: true, NoCopy: true})
		tcp, _ := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
		if tcp == nil || p.NetworkLayer() == nil {
			continue
		}
		if err := a.packet(p.NetworkLayer().NetworkFlow(), tcp, ci.Timestamp); err != nil {
			return err
		}
	}
	return errors.Join(a.finish(), readErr)
}

// decoderOf is the decoder of a link type; two that the library names but does not decode are plain IP.
func decoderOf(link layers.LinkType) gopacket.Decoder {
	switch link {
	case layers.LinkTypeIPv4:
		return layers.LayerTypeIPv4
	case layers.LinkTypeIPv6:
		return layers.LayerTypeIPv6
	}
	return link
}
