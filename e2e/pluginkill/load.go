//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/e2e/tap"
)

// load is what was sent, what the broker got, and what came back.
type load struct {
	sent, forwarded, answered, retry atomic.Uint64
	stop                             atomic.Bool
}

// broker answers each acknowledgement with success, and one that names no partition with none, as brokers do.
func (l *load) broker() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go l.serve(c)
		}
	}()
	return ln.Addr().String(), nil
}

func (l *load) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		f, err := frame(r)
		if err != nil {
			return
		}
		l.forwarded.Add(1)
		var req kmsg.ShareAcknowledgeRequest
		req.SetVersion(1)
		if err := req.ReadFrom(f[15:]); err != nil { // header: key, version, correlation id, client id "load", no tags
			fmt.Fprintln(os.Stderr, "the broker cannot read:", err)
			return
		}
		answer := kmsg.NewPtrShareAcknowledgeResponse()
		answer.SetVersion(1)
		for _, t := range req.Topics {
			topic := kmsg.NewShareAcknowledgeResponseTopic()
			topic.TopicID = t.TopicID
			for _, p := range t.Partitions {
				partition := kmsg.NewShareAcknowledgeResponseTopicPartition()
				partition.Partition = p.Partition
				topic.Partitions = append(topic.Partitions, partition)
			}
			answer.Topics = append(answer.Topics, topic)
		}
		if _, err := c.Write(sized(answer.AppendTo(append(append(make([]byte, 4), f[4:8]...), 0)))); err != nil {
			return
		}
	}
}

// client sends acknowledgements at its share of the rate, one at a time, and waits for each answer.
func (l *load) client(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	tick := time.NewTicker(time.Second * conns / time.Duration(*rate))
	defer tick.Stop()
	for id := int32(0); !l.stop.Load(); id++ {
		<-tick.C
		l.sent.Add(1)
		if _, err := c.Write(request(id)); err != nil {
			return err
		}
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		f, err := frame(r)
		if err != nil {
			return fmt.Errorf("request %d: %w", id, err)
		}
		answer := kmsg.NewPtrShareAcknowledgeResponse()
		answer.SetVersion(1)
		if err := answer.ReadFrom(f[5:]); err != nil || int32(binary.BigEndian.Uint32(f)) != id || len(answer.Topics) != 1 {
			return fmt.Errorf("request %d: a wrong answer: %x (%v)", id, f, err)
		}
		switch code := answer.Topics[0].Partitions[0].ErrorCode; {
		case code == 56 && *mode == "respond":
			l.retry.Add(1)
		case code != 0:
			return fmt.Errorf("request %d: error %d", id, code)
		}
		l.answered.Add(1)
	}
	return nil
}

// request is a ShareAcknowledge that rejects one record.
func request(id int32) []byte {
	r := kmsg.NewPtrShareAcknowledgeRequest()
	r.SetVersion(1)
	group, member := "group", "member"
	r.GroupID, r.MemberID, r.ShareSessionEpoch = &group, &member, 1
	batch := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
	batch.FirstOffset, batch.LastOffset, batch.AcknowledgeTypes = int64(id), int64(id), []int8{3}
	partition := kmsg.NewShareAcknowledgeRequestTopicPartition()
	partition.AcknowledgementBatches = append(partition.AcknowledgementBatches, batch)
	topic := kmsg.NewShareAcknowledgeRequestTopic()
	topic.TopicID, topic.Partitions = [16]byte{1}, append(topic.Partitions, partition)
	r.Topics = append(r.Topics, topic)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("load")).AppendRequest(nil, r, id)
}

// frame reads one frame, and leaves its size prefix out.
func frame(r io.Reader) ([]byte, error) {
	f, err := tap.ReadFrame(r)
	if err != nil {
		return nil, err
	}
	return f[4:], nil
}

func sized(p []byte) []byte {
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))
	return p
}
