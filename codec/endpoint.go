package codec

// LeaderIDAndEpoch is a broker's hint about who leads a partition; it means something beside the errors 6 and 74 only. Its zero value
// points at node 0: use NoLeader.
type LeaderIDAndEpoch struct {
	LeaderID, LeaderEpoch int32
	Tags                  Tags
}

// NoLeader is the hint that gives none, -1 and -1.
func NoLeader() LeaderIDAndEpoch { return LeaderIDAndEpoch{LeaderID: -1, LeaderEpoch: -1} }

func (l *LeaderIDAndEpoch) none() bool {
	return l.LeaderID == -1 && l.LeaderEpoch == -1 && len(l.Tags.raw) == 0
}

func (l *LeaderIDAndEpoch) walk(w *walker) {
	if !w.enter("CurrentLeader") {
		return
	}
	w.int32("LeaderId", &l.LeaderID)
	w.int32("LeaderEpoch", &l.LeaderEpoch)
	w.tags(&l.Tags)
	w.leave()
}

// NodeEndpoint is the address of a broker that a CurrentLeader names.
type NodeEndpoint struct {
	NodeID int32
	Host   []byte
	Port   int32
	Rack   []byte // nil is null
	Tags   Tags
}

func (n *NodeEndpoint) walk(w *walker) {
	w.int32("NodeId", &n.NodeID)
	w.str("Host", &n.Host)
	w.int32("Port", &n.Port)
	w.nullable("Rack", &n.Rack)
	w.tags(&n.Tags)
}
