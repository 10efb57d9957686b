package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// carriesEndpoints says whether the answer to a request may name a broker's address.
func carriesEndpoints(key, version int16) need {
	switch key {
	case codec.KeyMetadata, codec.KeyFindCoordinator, codec.KeyDescribeCluster, codec.KeyShareFetch, codec.KeyShareAcknowledge:
		return needEndpoints
	case codec.KeyProduce:
		if version >= 10 {
			return needEndpoints
		}
	case codec.KeyFetch:
		if version >= 16 {
			return needEndpoints
		}
	}
	return 0
}

// streams says whether answers of a key may be too large to hold, with their endpoints at the end.
func streams(key int16) bool {
	return key == codec.KeyProduce || key == codec.KeyFetch || key == codec.KeyShareFetch
}

// mapper rewrites the addresses of one answer, and remembers which nodes it had to remove.
type mapper struct {
	srv     *Server
	told    *advertised // of the connection; nil: nothing of its own
	api     string
	removed []int32
}

func (m *mapper) node(id int32, host string, port int32) (string, int32, bool) {
	to, p, ok := m.srv.advertise(id, host, port)
	if !ok {
		m.removed = append(m.removed, id)
		m.srv.metrics.unmapped.WithLabelValues(m.api).Inc()
		return to, p, false
	}
	if m.told == nil {
		return to, p, true
	}
	without := policy.Endpoint{Host: to, Port: p}
	e := m.told.of(id, without)
	if e != without && m.srv.nodes.upstream(e) { // this very answer may have taught it
		e = without
	}
	return e.Host, e.Port, true
}

// meet learns where a broker is, before any address of the answer is rewritten: a table must not lead to one that comes later in it.
func (m *mapper) meet(id int32, host string, port int32) {
	if m.told != nil && host != "" {
		m.srv.advertise(id, host, port)
	}
}

// mapTail rewrites the endpoints of t; false when it has none.
func (m *mapper) mapTail(t *tail) bool {
	if len(t.endpoints) == 0 {
		return false
	}
	for _, e := range t.endpoints {
		m.meet(e.id, string(e.host), e.port)
	}
	kept := t.endpoints[:0]
	for _, e := range t.endpoints {
		if host, port, ok := m.node(e.id, string(e.host), e.port); ok {
			e.host, e.port = []byte(host), port
			kept = append(kept, e)
		}
	}
	t.endpoints = kept
	return true
}

// rewriteTail returns the frame with the endpoints at its end rewritten, nil when there are none. body is where a walked to: the
// position of the tail in frame.
func (m *mapper) rewriteTail(frame []byte, at int, key int16, a *answer) ([]byte, error) {
	t, err := readTail(key, frame[at:])
	if err != nil || !m.mapTail(t) {
		return nil, err
	}
	out := t.append(slices.Clone(frame[:at]), 0)
	for _, l := range a.leaders {
		if slices.Contains(m.removed, l.id) {
			copy(out[l.at:], "\xff\xff\xff\xff\xff\xff\xff\xff") // no leader, no epoch
		}
	}
	return sized(out), nil
}

// sized writes the size prefix of a frame.
func sized(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// readStrict reads an answer with kmsg, which is laxer than we may be: what does not encode to the same bytes again might hold an
// address in a place that we do not look at.
func readStrict(m kmsg.Response, version int16, body []byte) error {
	m.SetVersion(version)
	if err := m.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %w", errBadFrame, err)
	}
	if !bytes.Equal(m.AppendTo(nil), body) {
		return fmt.Errorf("%w: what was read of it does not make the same bytes again", errBadFrame)
	}
	return nil
}

// metadata rewrites a Metadata answer, and learns the names of topics from it.
func (m *mapper) metadata(version int16, body []byte) (kmsg.Response, error) {
	r := kmsg.NewPtrMetadataResponse()
	if err := readStrict(r, version, body); err != nil {
		return nil, err
	}
	for _, t := range r.Topics {
		if id := codec.UUID(t.TopicID); t.Topic != nil && id != (codec.UUID{}) {
			m.srv.names.Add(id, *t.Topic)
		}
	}
	for _, b := range r.Brokers {
		m.meet(b.NodeID, b.Host, b.Port)
	}
	brokers := r.Brokers[:0]
	for _, b := range r.Brokers {
		if host, port, ok := m.node(b.NodeID, b.Host, b.Port); ok {
			b.Host, b.Port = host, port
			brokers = append(brokers, b)
		}
	}
	r.Brokers = brokers
	return r, nil
}

// findCoordinator rewrites a FindCoordinator answer. A coordinator that nothing stands for is "not available".
func (m *mapper) findCoordinator(version int16, body []byte) (kmsg.Response, error) {
	r := kmsg.NewPtrFindCoordinatorResponse()
	if err := readStrict(r, version, body); err != nil {
		return nil, err
	}
	one := func(code *int16, id *int32, host *string, port *int32) {
		if *host == "" && (*id < 0 || *code != 0) {
			return // an error: there is no address
		}
		to, p, ok := m.node(*id, *host, *port)
		*host, *port = to, p
		if ok {
			return
		}
		*id = -1
		if *code == 0 {
			*code = kerr.CoordinatorNotAvailable.Code
		}
	}
	if version <= 3 {
		one(&r.ErrorCode, &r.NodeID, &r.Host, &r.Port)
	}
	for _, c := range r.Coordinators {
		m.meet(c.NodeID, c.Host, c.Port)
	}
	for i := range r.Coordinators {
		c := &r.Coordinators[i]
		one(&c.ErrorCode, &c.NodeID, &c.Host, &c.Port)
	}
	return r, nil
}

// controllers is the EndpointType of DescribeCluster for which it lists controllers: addresses of another space, for which nothing of
// ours stands.
const controllers = 2

func (m *mapper) describeCluster(version int16, body []byte) (kmsg.Response, error) {
	r := kmsg.NewPtrDescribeClusterResponse()
	if err := readStrict(r, version, body); err != nil {
		return nil, err
	}
	for _, b := range r.Brokers {
		if r.EndpointType != controllers {
			m.meet(b.NodeID, b.Host, b.Port)
		}
	}
	brokers := r.Brokers[:0]
	for _, b := range r.Brokers {
		if version >= 1 && r.EndpointType == controllers {
			m.removed = append(m.removed, b.NodeID)
			m.srv.metrics.unmapped.WithLabelValues(m.api).Inc()
			continue
		}
		if host, port, ok := m.node(b.NodeID, b.Host, b.Port); ok {
			b.Host, b.Port = host, port
			brokers = append(brokers, b)
		}
	}
	r.Brokers = brokers
	return r, nil
}

// endpointsOf rewrites the node endpoints that our own codec reads; false when there are none.
func (m *mapper) endpointsOf(in codec.Array[codec.NodeEndpoint]) (out codec.Array[codec.NodeEndpoint], changed bool) {
	for e := range in.All() {
		m.meet(e.NodeID, string(e.Host), e.Port)
	}
	for e := range in.All() {
		changed = true
		if host, port, ok := m.node(e.NodeID, string(e.Host), e.Port); ok {
			e.Host, e.Port = []byte(host), port
			out.Append(e)
		}
	}
	return out, changed
}

// leaderless returns topics with the current leaders reset that were removed from the endpoints.
func (m *mapper) leaderless(in codec.Array[codec.AckResultTopic]) (out codec.Array[codec.AckResultTopic]) {
	if len(m.removed) == 0 {
		return in
	}
	for topic := range in.All() {
		var partitions codec.Array[codec.AckResult]
		for p := range topic.Partitions.All() {
			if slices.Contains(m.removed, p.CurrentLeader.LeaderID) {
				p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = -1, -1
			}
			partitions.Append(p)
		}
		topic.Partitions = partitions
		out.Append(topic)
	}
	return out
}
