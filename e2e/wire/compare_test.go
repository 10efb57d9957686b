package wire

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn makes a connection that carried one exchange.
func conn(q kmsg.Request, r kmsg.Response, correlation int32) *Conn {
	c := &Conn{Relay: "here:1"}
	c.toServer.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("t")).AppendRequest(nil, q, correlation))
	head := make([]byte, 8)
	binary.BigEndian.PutUint32(head[4:], uint32(correlation))
	if r.IsFlexible() && r.Key() != 18 {
		head = append(head, 0)
	}
	frame := r.AppendTo(head)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	c.toClient.Write(frame)
	return c
}

func metadata(host string, edit func(*kmsg.MetadataResponse)) *Conn {
	q, r := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataResponse()
	q.SetVersion(12)
	r.SetVersion(12)
	for n := range int32(2) {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = n, host, 9000+n
		r.Brokers = append(r.Brokers, b)
	}
	if edit != nil {
		edit(r)
	}
	return conn(q, r, 5)
}

func heartbeat(member string) *Conn {
	q, r := kmsg.NewPtrShareGroupHeartbeatRequest(), kmsg.NewPtrShareGroupHeartbeatResponse()
	q.SetVersion(1)
	r.SetVersion(1)
	r.MemberID = &member
	return conn(q, r, 5)
}

func versions(highest int16) *Conn {
	q, r := kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrApiVersionsResponse()
	q.SetVersion(4)
	r.SetVersion(4)
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MaxVersion = 78, highest
	r.ApiKeys = append(r.ApiKeys, k)
	return conn(q, r, 5)
}

func TestCompare(t *testing.T) {
	cut := metadata("front", nil)
	cut.toClient.Truncate(20)
	later := metadata("front", nil)
	later.toClient.Bytes()[7] = 6
	trailing := metadata("front", nil)
	trailing.toClient.WriteByte(0)
	binary.BigEndian.PutUint32(trailing.toClient.Bytes(), uint32(trailing.toClient.Len()-4))
	for _, c := range []struct {
		name            string
		client, broker  *Conn
		want            string // within the problem; none when empty
		rewritten, cuts int
	}{
		{"other address", metadata("front", nil), metadata("broker", nil), "", 1, 0},
		{"broker's address", metadata("broker", nil), metadata("broker", nil), "is told to be at broker:9000", 0, 0},
		{"one broker's address", metadata("front", func(r *kmsg.MetadataResponse) { r.Brokers[1].Host = "broker" }), metadata("broker", nil),
			"node 1 is told to be at broker:9001", 1, 0},
		{"other controller", metadata("front", func(r *kmsg.MetadataResponse) { r.ControllerID = 1 }), metadata("broker", nil),
			"outside of endpoints", 1, 0},
		{"broker left out", metadata("front", func(r *kmsg.MetadataResponse) { r.Brokers = r.Brokers[:1] }), metadata("broker", nil),
			"outside of endpoints", 1, 0},
		{"bytes left over", trailing, metadata("broker", nil), "encode to other", 0, 0},
		{"answer not waited for", cut, metadata("broker", nil), "", 0, 1},
		{"wrong correlation id", later, metadata("broker", nil), "correlation id 6 instead of 5", 0, 0},
		{"answer not of the broker's", heartbeat("a"), cutOff(heartbeat("a")), "no broker gave", 0, 0},
		{"same opaque answer", heartbeat("a"), heartbeat("a"), "", 0, 0},
		{"other opaque answer", heartbeat("a"), heartbeat("b"), "other bytes", 0, 0},
		{"broker's address in an opaque answer", heartbeat("at secret:9"), heartbeat("at secret:9"), "to the client says secret", 0, 0},
		{"other request", heartbeat("a"), metadata("broker", nil), "no broker got", 0, 0},
		{"fewer versions", versions(1), versions(2), "", 1, 0},
		{"more versions", versions(3), versions(2), "offers key 78", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tally, problems := Compare([]*Conn{c.client}, []*Conn{c.broker}, Hosts{"front", "secret"})
			if c.want == "" && len(problems) > 0 || c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.want)) {
				t.Errorf("problems %q; want %q", problems, c.want)
			}
			rewritten := 0
			for _, n := range tally.Rewritten {
				rewritten += n
			}
			if rewritten != c.rewritten || tally.Cut != c.cuts {
				t.Errorf("tally %+v; want %d rewritten, %d cut", tally, c.rewritten, c.cuts)
			}
		})
	}
}

func cutOff(c *Conn) *Conn {
	c.toClient.Reset()
	return c
}

// TestCompareTwins: connections with the very same requests find each its own answers, and what no client sent is the proxy's own.
func TestCompareTwins(t *testing.T) {
	hosts := Hosts{"front", "secret"}
	brokers := []*Conn{heartbeat("b"), heartbeat("a"), metadata("broker", nil)}
	tally, problems := Compare([]*Conn{heartbeat("a"), heartbeat("b")}, brokers, hosts)
	if len(problems) > 0 || tally.Conns != 2 || tally.Own["Metadata"] != 1 || tally.Exchanges["ShareGroupHeartbeat"] != 2 {
		t.Errorf("%+v %q", tally, problems)
	}
	if _, problems := Compare([]*Conn{heartbeat("a"), heartbeat("a")}, brokers, hosts); len(problems) != 1 {
		t.Errorf("one answer for two clients: %q", slices.Clip(problems))
	}
}
