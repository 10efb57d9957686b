package proxy

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// Where nothing is withheld and no reply edited there is nothing to do for the answer: types that were changed are the broker's to judge.
func TestNoMerge(t *testing.T) {
	d := of(same(0, 1, 1), changedTo(2, 3, 3, 2))
	d.Partitions = append(d.Partitions, policy.Decided{TopicID: codec.UUID{2}, Malformed: true})
	if m := newMerge(d, policy.ShareFetch); m != nil {
		t.Errorf("%+v", m)
	}
	if m := newMerge(&policy.Decision{}, policy.ShareAcknowledge); m != nil {
		t.Errorf("%+v", m)
	}
}

// answerTo is the frame of an answer with this body.
func answerTo(body []byte) []byte {
	return sized(append((&codec.ResponseHeader{CorrelationID: 8, Version: 1}).Append(make([]byte, 4)), body...))
}

// A partition that a broker leaves out is answered as brokers answer: no records, which is not null, and no leader.
func TestMergeAddsFetchResult(t *testing.T) {
	m := newMerge(of(held(0, 9, 1)), policy.ShareFetch)
	out, did, err := m.apply(answerTo((&codec.ShareFetchResponse{AcquisitionLockTimeoutMs: 30000}).Append(nil, 2)), 9, 2)
	topic := codec.FetchResultTopic{TopicID: codec.UUID{1}}
	topic.Partitions.Append(codec.FetchResult{PartitionIndex: 3, AcknowledgeErrorCode: 121, Records: []byte{},
		CurrentLeader: codec.LeaderIDAndEpoch{LeaderID: -1, LeaderEpoch: -1}})
	want := codec.ShareFetchResponse{AcquisitionLockTimeoutMs: 30000}
	want.Responses.Append(topic)
	if frame := answerTo(want.Append(nil, 2)); err != nil || did != changed || !bytes.Equal(out, frame) {
		t.Errorf("%v, %d, %x, want %x", err, did, out, frame)
	}
}

func TestMergeAddsAckResult(t *testing.T) {
	d := of(held(0, 9, 1))
	m := newMerge(d, policy.ShareAcknowledge)
	d.Partitions[0] = policy.Decided{} // the merge lives longer
	out, did, err := m.apply(answerTo((&codec.ShareAcknowledgeResponse{}).Append(nil, 1)), 9, 1)
	topic := codec.AckResultTopic{TopicID: codec.UUID{1}}
	topic.Partitions.Append(codec.AckResult{PartitionIndex: 3, ErrorCode: 121, CurrentLeader: codec.LeaderIDAndEpoch{LeaderID: -1, LeaderEpoch: -1}})
	var want codec.ShareAcknowledgeResponse
	want.Responses.Append(topic)
	if frame := answerTo(want.Append(nil, 1)); err != nil || did != changed || !bytes.Equal(out, frame) {
		t.Errorf("%v, %d, %x, want %x", err, did, out, frame)
	}
}

// A tolerated answer is passed on as what was read of it, once anything is changed; one that is no answer is an error.
func TestMergeReads(t *testing.T) {
	m := newMerge(of(held(0, 9, 1)), policy.ShareAcknowledge)
	exact := answerTo((&codec.ShareAcknowledgeResponse{}).Append(nil, 2))
	want, _, err := m.apply(exact, 9, 2)
	if err != nil {
		t.Fatal(err)
	}
	tolerated := sized(append(slices.Clone(exact), 0))
	before := slices.Clone(tolerated)
	if out, did, err := m.apply(tolerated, 9, 2); err != nil || did != changed || !bytes.Equal(out, want) || !bytes.Equal(tolerated, before) {
		t.Errorf("%v, %d, %x, want %x", err, did, out, want)
	}
	for name, frame := range map[string][]byte{"short": exact[:len(exact)-1], "empty": exact[:9]} {
		for _, c := range []policy.Carrier{policy.ShareFetch, policy.ShareAcknowledge, policy.TxnShareAcknowledge} {
			if out, did, err := newMerge(of(held(0, 9, 1)), c).apply(frame, 9, 0); err == nil || out != nil || did != unchanged {
				t.Errorf("%s %s: %v, %d, %x", c, name, err, did, out)
			}
		}
	}
}

// An error at the top stands with or without topics, which stay; the broker's own is not touched.
func TestMergeTopLevel(t *testing.T) {
	d := &policy.Decision{Replies: []policy.ReplyEdit{{TopLevel: true, ErrorCode: 30, Message: "not you"}}}
	m := newMerge(d, policy.ShareAcknowledge)
	topic := codec.AckResultTopic{TopicID: codec.UUID{1}}
	topic.Partitions.Append(codec.AckResult{PartitionIndex: 3})
	var a codec.ShareAcknowledgeResponse
	a.Responses.Append(topic)
	rows := a.Append(nil, 2)
	if did := m.shareAcknowledge(&a); did != changed || a.ErrorCode != 30 || string(a.ErrorMessage) != "not you" || a.Responses.Len() != 1 {
		t.Errorf("%d, %+v", did, a)
	}
	a.ErrorCode, a.ErrorMessage = 0, nil
	if !bytes.Equal(a.Append(nil, 2), rows) {
		t.Error("more than the top level changed")
	}
	refused := codec.ShareFetchResponse{ErrorCode: 122}
	if did := newMerge(d, policy.ShareFetch).shareFetch(&refused); did != overruled || refused.ErrorCode != 122 || refused.ErrorMessage != nil {
		t.Errorf("%d, %+v", did, refused)
	}
}
