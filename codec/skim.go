package codec

// shape is how the elements of an array lie on the wire, for each layout. It is not written down but learnt, from the walk of one
// element, and serves two ends: to refuse counts that the bytes left cannot hold, and to pass over elements that nobody looks at yet.
type shape [layouts]struct {
	least int // bytes of the smallest element
	steps []step
}

// The shapes of all elements.
var (
	int32Shape, ackTopicShape, ackPartitionShape, ackBatchShape, forgottenTopicShape, ackResultTopicShape, ackResultShape,
	fetchResultTopicShape, fetchResultShape, acquiredRecordShape, nodeEndpointShape, listenerShape shape
)

// Learnt here and not where they are declared, since walks lead to shapes and shapes to walks. What others are made of comes first.
func init() {
	learn(&int32Shape, int32(0))
	learn(&ackBatchShape, AckBatch{})
	learn(&ackPartitionShape, AckPartition{})
	learn(&ackTopicShape, AckTopic{})
	learn(&forgottenTopicShape, ForgottenTopic{})
	learn(&ackResultShape, NewAckResult(0, 0))
	learn(&ackResultTopicShape, AckResultTopic{})
	learn(&acquiredRecordShape, AcquiredRecord{})
	learn(&fetchResultShape, FetchResult{})
	learn(&fetchResultTopicShape, FetchResultTopic{})
	learn(&nodeEndpointShape, NodeEndpoint{})
	learn(&listenerShape, Listener{})
}

// learn writes the smallest element and watches how it is read.
func learn[T element](s *shape, smallest T) {
	for l := range s {
		w := walker{appending: true, layout: layout(l)}
		walkAll(&w, &smallest, 1)
		var steps learner
		r := walker{in: w.out, layout: layout(l), care: &care{tracer: &steps}}
		walkAll(&r, new(T), 1)
		s[l].least, s[l].steps = len(w.out), steps
	}
}

// step is one thing to pass over.
type step struct {
	kind stepKind
	size int    // of fixed
	elem *shape // of array
}

type stepKind uint8

const (
	fixed    stepKind = iota // size bytes, whatever they are
	boolean                  // one byte, 0 or 1
	compact                  // a length, and so many bytes less one
	nullable                 // the same, or null
	elements                 // a count, and so many elements less one
	tags                     // no tagged fields
)

// learner is a Tracer that turns fields into steps.
type learner []step

// Field adds a step, or makes the one before longer.
func (l *learner) Field(f Field) {
	s := *l
	switch {
	case f.Type == Bool:
		s = append(s, step{kind: boolean})
	case f.Type == TagSection:
		s = append(s, step{kind: tags})
	case f.Type.nullable():
		s = append(s, step{kind: nullable})
	case f.Type == CompactString || f.Type == CompactInt8Array:
		s = append(s, step{kind: compact})
	case len(s) > 0 && s[len(s)-1].kind == fixed:
		s[len(s)-1].size += f.Len
	default:
		s = append(s, step{kind: fixed, size: f.Len})
	}
	*l = s
}

// Open adds a step for arrays; the fields of structs come by themselves.
func (l *learner) Open(f Field) {
	if f.Type == CompactArray {
		*l = append(*l, step{kind: elements, elem: f.elem})
	}
}

// Close ends what Open began.
func (l *learner) Close(int) {}

// skim passes over n elements from byte p of b, and says where they end. It knows plain encodings only: where it meets anything else,
// and be it just uncommon, it is false, and the walk has to look.
func (s *shape) skim(b []byte, p, n int, l layout) (int, bool) {
	steps := s[l%layouts].steps
	for ; n > 0; n-- {
		for i := range steps {
			step := &steps[i]
			switch step.kind {
			case fixed:
				p += step.size
				continue
			case boolean, tags:
				if p >= len(b) || b[p] > step.most() {
					return p, false
				}
				p++
				continue
			}
			c, ok := 0, false
			if c, p, ok = plainLength(b, p); !ok {
				return p, false
			}
			switch {
			case step.kind == elements:
				if c == 0 || (c-1)*step.elem[l%layouts].least > len(b)-p {
					return p, false
				}
				if p, ok = step.elem.skim(b, p, c-1, l); !ok {
					return p, false
				}
			case c > 0:
				p += c - 1
			case step.kind == compact:
				return p, false
			}
		}
	}
	return p, p <= len(b)
}

// most is the greatest plain byte of a boolean or of tags.
func (s *step) most() byte {
	if s.kind == boolean {
		return 1
	}
	return 0
}

// plainLength reads a uvarint of one or two bytes, which is not longer than needed.
func plainLength(b []byte, p int) (v, next int, ok bool) {
	switch {
	case p >= len(b):
		return 0, p, false
	case b[p] < 0x80:
		return int(b[p]), p + 1, true
	case p+1 >= len(b) || b[p+1] == 0 || b[p+1] >= 0x80:
		return 0, p, false
	}
	return int(b[p]&0x7f) | int(b[p+1])<<7, p + 2, true
}
