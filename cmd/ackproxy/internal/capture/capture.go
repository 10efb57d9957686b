// Package capture reads the TCP streams out of a packet capture: pcap and pcapng, Ethernet, Linux cooked, loopback and raw IP, in
// IPv4 and IPv6. It puts segments in order and says who the client is; what the bytes mean is the caller's.
//
// file.go reads packets from the file, packet.go finds the TCP segment in a packet, tcp.go makes streams of the segments.
//
// There is no library for it here: gopacket, which the tests compare with, has tables of 5 MiB of all protocols that it knows. They are
// full of pointers, so that the garbage collector of every proxy would go through them, for a command that is run once in a while.
package capture

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"
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
	order, _ := pcapMagic(head)
	return order != nil || isNg(head)
}

func isNg(head []byte) bool { return [4]byte(head) == [4]byte{0x0a, 0x0d, 0x0d, 0x0a} }

// Read calls emit for every piece of every stream in r, in the order of the capture. request says whether the first bytes of a stream
// look like a client's: it decides who the client is where the capture lacks the handshake. An error of emit ends Read and is
// returned as it is. A capture that ends inside a packet is read as far as it goes, and io.ErrUnexpectedEOF returned. Errors of the file
// name the byte at which the packet or block begins. Packets without TCP, and of link types not known here, are passed over.
func Read(r io.Reader, request func([]byte) bool, emit func(Chunk) error) error {
	file, err := open(bufio.NewReaderSize(r, 1<<16))
	if err != nil {
		return fmt.Errorf("not a readable capture: %w", err)
	}
	a := assembler{conns: map[flow]*conn{}, request: request, emit: emit}
	for {
		f, err := file.next()
		if err == io.EOF {
			return a.finish()
		}
		if err != nil {
			return errors.Join(a.finish(), fmt.Errorf("reading the capture: %w", err))
		}
		if s, ok := f.segment(); ok {
			if err := a.add(s); err != nil {
				return err
			}
		}
	}
}
