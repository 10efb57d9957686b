package codec

const maxAddRaftVoter = 1

// AddRaftVoterRequest (key 80, v0 and v1; KIP-853, KIP-1186) adds a controller to the quorum.
type AddRaftVoterRequest struct {
	ClusterID        []byte // nil is null
	TimeoutMs        int32
	VoterID          int32
	VoterDirectoryID UUID
	Listeners        Array[Listener]
	AckWhenCommitted bool // v1 and later; Kafka's default is true
	Tags             Tags
}

// Decode reads the body of a request of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *AddRaftVoterRequest) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxAddRaftVoter)
}

// Append appends the canonical encoding of the body to dst.
func (m *AddRaftVoterRequest) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxAddRaftVoter)
}

func (m *AddRaftVoterRequest) walk(w *walker) {
	w.nullable("ClusterId", &m.ClusterID)
	w.int32("TimeoutMs", &m.TimeoutMs)
	w.int32("VoterId", &m.VoterID)
	w.uuid("VoterDirectoryId", &m.VoterDirectoryID)
	array(w, "Listeners", &m.Listeners, &listenerShape)
	if w.version >= 1 {
		w.bool("AckWhenCommitted", &m.AckWhenCommitted)
	}
	w.tags(&m.Tags)
}

// Listener is where the new voter listens.
type Listener struct {
	Name, Host []byte
	Port       uint16
	Tags       Tags
}

func (l *Listener) walk(w *walker) {
	w.str("Name", &l.Name)
	w.str("Host", &l.Host)
	w.uint16("Port", &l.Port)
	w.tags(&l.Tags)
}
