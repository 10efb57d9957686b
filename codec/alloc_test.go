package codec

import "testing"

// Decoding and looking at every batch allocates nothing, however many there are.
func TestNoAllocations(t *testing.T) {
	for name, body := range map[string][]byte{
		"one batch":  ackBody(1, 1, 1, 1),
		"a thousand": ackBody(10, 10, 10, 10),
		"many types": ackBody(1, 1, 300, 200),
		"more types": ackBody(1, 1, 3, 20_000),
		"tags":       taggedAckBody(),
	} {
		want, got := 0, 0
		for topic := range mustDecode(t, body, 2).Topics.All() {
			for p := range topic.Partitions.All() {
				want += p.Batches.Len()
			}
		}
		allocs := testing.AllocsPerRun(10, func() {
			got = 0
			var m ShareAcknowledgeRequest
			if o, p := m.Decode(body, 0, 2); o != Exact {
				t.Error(o, p)
			}
			for topic := range m.Topics.All() {
				for p := range topic.Partitions.All() {
					for b := range p.Batches.All() {
						if b.LastOffset-b.FirstOffset+1 == int64(len(b.Types)) {
							got++
						}
					}
				}
			}
		})
		if allocs != 0 || got != want || want == 0 {
			t.Errorf("%s: %v allocations, %d batches of %d", name, allocs, got, want)
		}
	}
}

// taggedAckBody has unknown tags in a batch, which cannot be passed over.
func taggedAckBody() []byte {
	b := AckBatch{Types: []byte{1}}
	b.Tags.Append(7, []byte("seven"))
	m := ackRequest(b, b)
	return m.Append(nil, 2)
}

// Headers are read without allocating as well.
func TestHeadersAllocateNothing(t *testing.T) {
	frame := requestFrame(KeyShareAcknowledge, 2, nil)
	if n := testing.AllocsPerRun(10, func() {
		if _, _, o, _ := DecodeRequestHeader(frame, 0); o != Exact {
			t.Error(o)
		}
		if _, _, o, _ := DecodeResponseHeader(frame, 0); o != Exact {
			t.Error(o)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A million batches in one partition cost nothing beside the bytes they came in.
func TestManyBatchesCostTheirBytes(t *testing.T) {
	body := ackBody(1, 1, 1_000_000, 1)
	var m ShareAcknowledgeRequest
	if n := testing.AllocsPerRun(1, func() {
		if o, p := m.Decode(body, 0, 2); o != Exact {
			t.Error(o, p)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
