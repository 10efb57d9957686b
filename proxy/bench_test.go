package proxy

import (
	"net"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

// nobody is an observer that looks away.
type nobody struct{}

func (nobody) Observe(*policy.Outcome) {}

// idle is a connection with addresses and nothing else.
type idle struct{ net.Conn }

func (idle) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// exchanger passes requests and answers through both directors without sockets.
type exchanger struct {
	c    *conn
	up   *requests
	down *responses
}

func newExchanger(b testing.TB, observers ...policy.Observer) *exchanger {
	s, err := New(Config{Bootstrap: "127.0.0.1:0", Advertise: "127.0.0.1", Observers: observers})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.closeListeners)
	c := newConn(s, s.node(bootstrapNode), idle{}, idle{}, s.brokerAt("b"))
	return &exchanger{c, &requests{c: c, h: &half{}}, &responses{c: c, h: &half{}}}
}

func (e *exchanger) pass(b testing.TB, d director, frame []byte) {
	act, err := d.begin(frame, len(frame))
	if err == nil && act != passOn {
		_, err = d.whole(frame)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (e *exchanger) exchange(b testing.TB, request, answer []byte) {
	e.pass(b, e.up, request)
	e.pass(b, e.down, answer)
	e.down.written(1)
}

// BenchmarkExchange is what the proxy does to a request and its answer, system calls aside.
func BenchmarkExchange(b *testing.B) {
	for _, bench := range []struct {
		name            string
		request, answer []byte
	}{
		{"opaque", opaque(1, 150), opaqueReply(1, 50)},
		{"ShareAcknowledge", shareAck(1, 1, 1), shareAckReply(1, 0)},
		{"ShareAcknowledge 100 batches", shareAck(1, 1, 100), shareAckReply(1, 0)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := newExchanger(b, nobody{})
			b.ReportAllocs()
			for b.Loop() {
				e.exchange(b, bench.request, bench.answer)
			}
		})
	}
}

// A frame that nobody looks into costs no allocation.
func TestOpaqueAllocations(t *testing.T) {
	e := newExchanger(t)
	request, answer := opaque(1, 150), opaqueReply(1, 50)
	if got := testing.AllocsPerRun(100, func() { e.exchange(t, request, answer) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
