package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
)

// frameOf puts a size prefix before p.
func frameOf(p []byte) []byte { return sized(append(make([]byte, 4, 4+len(p)), p...)) }

// request encodes a kmsg request as a client would.
func request(r kmsg.Request, version int16, id int32) []byte {
	r.SetVersion(version)
	p := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, r, id)
	return p
}

// opaque is a request of a key that is ours to pass only: Heartbeat.
func opaque(id int32, payload int) []byte {
	p := binary.BigEndian.AppendUint16(nil, uint16(codec.KeyHeartbeat))
	p = binary.BigEndian.AppendUint16(p, 3)
	p = binary.BigEndian.AppendUint32(p, uint32(id))
	p = binary.BigEndian.AppendUint16(p, 0xffff)
	for i := range payload {
		p = append(p, byte(i))
	}
	return frameOf(p)
}

// shareAck is a ShareAcknowledge v1 that accepts n single offsets in batches of their own.
func shareAck(id int32, epoch int32, n int) []byte {
	r := kmsg.NewPtrShareAcknowledgeRequest()
	group, member := "g", "m"
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &group, &member, epoch
	part := kmsg.NewShareAcknowledgeRequestTopicPartition()
	for i := range n {
		b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = int64(i), int64(i), []int8{1}
		part.AcknowledgementBatches = append(part.AcknowledgementBatches, b)
	}
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	topic.TopicID = [16]byte{1}
	topic.Partitions = append(topic.Partitions, part)
	r.Topics = append(r.Topics, topic)
	return request(r, 1, id)
}

// shareAckReply answers shareAck: partition 0 with the code.
func shareAckReply(id int32, code int16) []byte {
	r := kmsg.NewPtrShareAcknowledgeResponse()
	r.SetVersion(1)
	part := kmsg.NewShareAcknowledgeResponseTopicPartition()
	part.ErrorCode = code
	topic := kmsg.NewShareAcknowledgeResponseTopic()
	topic.TopicID = [16]byte{1}
	topic.Partitions = append(topic.Partitions, part)
	r.Topics = append(r.Topics, topic)
	return reply(r, id)
}

// reply encodes an answer with its header.
func reply(r kmsg.Response, id int32) []byte {
	p := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(id))
	if r.IsFlexible() && r.Key() != codec.KeyApiVersions {
		p = append(p, 0)
	}
	return sized(r.AppendTo(p))
}

// opaqueReply is an answer with n bytes that nobody reads.
func opaqueReply(id int32, n int) []byte {
	return frameOf(append(binary.BigEndian.AppendUint32(nil, uint32(id)), make([]byte, n)...))
}

// readFrame reads one frame, size prefix included.
func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	p := make([]byte, 4+binary.BigEndian.Uint32(head))
	copy(p, head)
	_, err := io.ReadFull(r, p[4:])
	return p, err
}

// idOf is the correlation id of a request or of an answer.
func idOf(frame []byte, answer bool) int32 {
	if answer {
		return int32(binary.BigEndian.Uint32(frame[4:]))
	}
	return int32(binary.BigEndian.Uint32(frame[8:]))
}

// script is a broker on loopback whose connections run serve. It ends with the test.
func script(t *testing.T, serve func(c *net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	work.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			work.Go(func() {
				serve(c.(*net.TCPConn))
				c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return ln.Addr().String()
}

// answering is a broker that answers each request with what answer returns, in order; nil for none.
func answering(answer func(frame []byte) []byte) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		r := bufio.NewReaderSize(c, 1<<20)
		for {
			f, err := readFrame(r)
			if err != nil {
				return
			}
			if a := answer(f); a != nil {
				if _, err := c.Write(a); err != nil {
					return
				}
			}
		}
	}
}

// echo answers every request with its correlation id.
func echo(frame []byte) []byte { return opaqueReply(idOf(frame, false), 10) }

// dial connects a raw client that gives up after 20 seconds.
func dial(t *testing.T, s *Server) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

// eventually waits for ok, looking again every few milliseconds, and fails with what after ten seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("not within a minute: ", what)
		}
	}
}

// closedBy reads until the connection ends and returns the bytes that came first.
func closedBy(c net.Conn) ([]byte, error) {
	p, err := io.ReadAll(c)
	if err != nil && everyday(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return p, fmt.Errorf("still open: %w", err)
		}
		err = nil // a reset is an end, too
	}
	return p, err
}
