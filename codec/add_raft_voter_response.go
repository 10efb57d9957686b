package codec

// AddRaftVoterResponse (key 80, v0 and v1; KIP-853) says whether the voter was added.
type AddRaftVoterResponse struct {
	ThrottleTimeMs int32
	ErrorCode      int16
	ErrorMessage   []byte // nil is null
	Tags           Tags
}

// Decode reads the body of a response of this version; at is where the body begins in its frame, and counts for Problem.At only. Unless
// it is Exact or Tolerated, m is left empty. Strings, arrays and tags point into body.
//
//go:noinline
func (m *AddRaftVoterResponse) Decode(body []byte, at int, version int16) (Outcome, *Problem) {
	return decode(m, body, at, version, maxAddRaftVoter)
}

// Append appends the canonical encoding of the body to dst.
func (m *AddRaftVoterResponse) Append(dst []byte, version int16) []byte {
	return encode(m, dst, version, maxAddRaftVoter)
}

func (m *AddRaftVoterResponse) walk(w *walker) {
	w.int32("ThrottleTimeMs", &m.ThrottleTimeMs)
	w.int16("ErrorCode", &m.ErrorCode)
	w.nullable("ErrorMessage", &m.ErrorMessage)
	w.tags(&m.Tags)
}
