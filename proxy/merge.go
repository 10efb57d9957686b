package proxy

import (
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// merge is what a decision changes in the broker's answer. It is made when the request passes, and belongs to its exchange.
//
// An error of the broker's wins, of the answer as a whole and of a partition. Else a partition of which acknowledgements were withheld gets
// the code of that, and one whose reply a policy edits gets the policy's. Brokers do not answer a partition of which nothing was forwarded, and keep
// no order (KIP-932): what they left out is added.
type merge struct {
	carrier policy.Carrier
	top     *policy.ReplyEdit // nil where the top level stays
	rows    []verdict         // of what the request acknowledges, in its order; then of what else a policy named
	index   map[target]int    // of rows
}

// verdict is ours about one partition.
type verdict struct {
	target
	code     int16  // 0 where we have nothing to say
	message  []byte // nil is null
	withheld bool   // the code is that of withheld acknowledgements
	asked    bool   // the request acknowledges the partition: it gets an answer
}

// effect says what a merge did to an answer.
type effect uint8

const (
	unchanged effect = iota // there was nothing to change
	changed
	overruled // the broker refused the request as a whole: the answer passes as it is
)

// newMerge is nil where the answer passes as it is. It keeps nothing of d.
func newMerge(d *policy.Decision, carrier policy.Carrier) *merge {
	if !d.Answers() {
		return nil
	}
	m := &merge{carrier: carrier, index: make(map[target]int, len(d.Partitions))}
	for i := range d.Partitions {
		p := &d.Partitions[i]
		code := p.Code()
		m.add(verdict{target: target{p.TopicID, p.Index}, code: code, withheld: code != 0, asked: true})
	}
	for _, e := range d.Replies {
		if e.TopLevel {
			m.top = &e
			continue
		}
		t := target{e.TopicID, e.Partition}
		if _, ok := m.index[t]; !ok {
			m.add(verdict{target: t})
		}
		if v := &m.rows[m.index[t]]; !v.withheld { // what was withheld is what the broker's state shows
			v.code, v.message = e.ErrorCode, messageOf(&e)
		}
	}
	return m
}

func (m *merge) add(v verdict) {
	m.index[v.target] = len(m.rows)
	m.rows = append(m.rows, v)
}

func messageOf(e *policy.ReplyEdit) []byte {
	if e.Message == "" {
		return nil
	}
	return []byte(e.Message)
}

// apply returns the answer to send instead of frame, whose body begins at body; nil where frame passes as it is. An answer that cannot be
// read is an error. Of one that is Tolerated, what was read is passed on where anything changes. frame is only read.
func (m *merge) apply(frame []byte, body int, version int16) ([]byte, effect, error) {
	var did effect
	var err error
	var encode func(dst []byte, version int16) []byte
	switch m.carrier {
	case policy.ShareFetch:
		var a codec.ShareFetchResponse
		if err = readable(a.Decode(frame[body:], body, version)); err == nil {
			did, encode = m.shareFetch(&a), a.Append
		}
	case policy.ShareAcknowledge:
		var a codec.ShareAcknowledgeResponse
		if err = readable(a.Decode(frame[body:], body, version)); err == nil {
			did, encode = m.shareAcknowledge(&a), a.Append
		}
	default:
		var a codec.TxnShareAcknowledgeResponse
		if err = readable(a.Decode(frame[body:], body, version)); err == nil {
			did, encode = m.txnShareAcknowledge(&a), a.Append
		}
	}
	if err != nil {
		return nil, unchanged, fmt.Errorf("merge %s: %w", m.carrier, err)
	}
	if did != changed {
		return nil, did, nil
	}
	return sized(encode(append(make([]byte, 0, len(frame)+256), frame[:body]...), version)), changed, nil
}

// shareFetch, shareAcknowledge and txnShareAcknowledge edit an answer that was decoded. Of a ShareFetch, records and the error of the fetch
// are not ours to touch.
func (m *merge) shareFetch(a *codec.ShareFetchResponse) effect {
	return mergeAnswer(m, &a.ErrorCode, &a.ErrorMessage, &a.Responses, fetchRows)
}

func (m *merge) shareAcknowledge(a *codec.ShareAcknowledgeResponse) effect {
	return mergeAnswer(m, &a.ErrorCode, &a.ErrorMessage, &a.Responses, ackRows)
}

func (m *merge) txnShareAcknowledge(a *codec.TxnShareAcknowledgeResponse) effect {
	return mergeAnswer(m, &a.ErrorCode, new([]byte), &a.Responses, ackRows) // it has no message
}

func mergeAnswer[T codec.AckResultTopic | codec.FetchResultTopic, P codec.AckResult | codec.FetchResult](
	m *merge, code *int16, message *[]byte, topics *codec.Array[T], of rowsOf[T, P],
) (did effect) {
	if *code != 0 {
		return overruled
	}
	if *topics, did = mergeTopics(m, *topics, of); m.top != nil {
		*code, *message, did = m.top.ErrorCode, messageOf(m.top), changed
	}
	return did
}
