package proxy

import (
	"fmt"
	"slices"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// row is one partition of an answer: the verdict about its acknowledgements, and all else as text.
type row struct {
	target
	code    int16
	message string // "null" where it is
	rest    string
}

// seenAnswer is an answer to any carrier.
type seenAnswer struct {
	code    int16
	message string
	rows    []row
	topics  int    // that the rows are in
	rest    string // what is neither
}

func nullable(p []byte) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprintf("%q", p)
}

func messageBytes(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

// brokerRows are a broker's: it answers what it is asked in any order, with errors of its own, leaves out entries without batches, and now
// and then one that it should answer. Of a ShareFetch it answers for what was fetched as well.
func brokerRows(g *gen, topics codec.Array[codec.AckTopic]) (rows []row) {
	for _, e := range lastEntries(topics) {
		r := row{target: e.target}
		if g.one(3) {
			r.code, r.message = g.code(), g.message()
		}
		if !g.one(10) {
			rows = append(rows, r)
		}
	}
	if g.carrier == policy.ShareFetch {
		for topic := range topics.All() {
			for p := range topic.Partitions.All() {
				t := target{topic.TopicID, p.PartitionIndex}
				if !g.one(3) && !slices.ContainsFunc(rows, func(r row) bool { return r.target == t }) {
					rows = append(rows, row{target: t})
				}
			}
		}
	}
	g.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows
}

func brokerAnswers(g *gen, topics codec.Array[codec.AckTopic]) []byte {
	rows := brokerRows(g, topics)
	top := int16(0)
	if g.one(8) {
		top = g.code()
	}
	frame := (&codec.ResponseHeader{CorrelationID: 9, Version: 1}).Append(make([]byte, 4))
	var tags codec.Tags
	g.tags(&tags)
	var nodes codec.Array[codec.NodeEndpoint]
	nodes.Append(codec.NodeEndpoint{NodeID: 1, Host: []byte("host"), Port: 9092})
	switch g.carrier {
	case policy.ShareFetch:
		m := codec.ShareFetchResponse{ErrorCode: top, AcquisitionLockTimeoutMs: 30000, NodeEndpoints: nodes, Tags: tags, Responses: fetchTopics(g, rows)}
		return sized(m.Append(frame, g.version))
	case policy.ShareAcknowledge:
		m := codec.ShareAcknowledgeResponse{ErrorCode: top, AcquisitionLockTimeoutMs: 30000, NodeEndpoints: nodes, Tags: tags,
			Responses: ackTopics(g, rows)}
		return sized(m.Append(frame, g.version))
	}
	m := codec.TxnShareAcknowledgeResponse{ErrorCode: top, NodeEndpoints: nodes, Tags: tags, Responses: ackTopics(g, rows)}
	return sized(m.Append(frame, g.version))
}

// ofTopics calls each with every topic of rows, and its rows.
func ofTopics(rows []row, each func(codec.UUID, []row)) {
	for len(rows) > 0 {
		id := rows[0].topic
		var mine, others []row
		for _, r := range rows {
			if r.topic == id {
				mine = append(mine, r)
			} else {
				others = append(others, r)
			}
		}
		each(id, mine)
		rows = others
	}
}

func fetchTopics(g *gen, rows []row) (out codec.Array[codec.FetchResultTopic]) {
	ofTopics(rows, func(id codec.UUID, rows []row) {
		topic := codec.FetchResultTopic{TopicID: id}
		for _, r := range rows {
			p := codec.FetchResult{PartitionIndex: r.partition, ErrorCode: int16(g.IntN(2) * 6), AcknowledgeErrorCode: r.code,
				AcknowledgeErrorMessage: messageBytes(r.message), Records: fmt.Appendf(nil, "records %d", g.IntN(99))}
			p.AcquiredRecords.Append(codec.AcquiredRecord{FirstOffset: g.Int64(), DeliveryCount: 1})
			g.tags(&p.Tags)
			topic.Partitions.Append(p)
		}
		g.tags(&topic.Tags)
		out.Append(topic)
	})
	return out
}

func ackTopics(g *gen, rows []row) (out codec.Array[codec.AckResultTopic]) {
	ofTopics(rows, func(id codec.UUID, rows []row) {
		topic := codec.AckResultTopic{TopicID: id}
		for _, r := range rows {
			p := codec.AckResult{PartitionIndex: r.partition, ErrorCode: r.code, ErrorMessage: messageBytes(r.message),
				CurrentLeader: codec.LeaderIDAndEpoch{LeaderID: g.Int32N(3), LeaderEpoch: 7}}
			g.tags(&p.Tags)
			topic.Partitions.Append(p)
		}
		g.tags(&topic.Tags)
		out.Append(topic)
	})
	return out
}

func readReply(g *gen, frame []byte) (is seenAnswer, outcome codec.Outcome) {
	body := frame[9:]
	switch g.carrier {
	case policy.ShareFetch:
		var m codec.ShareFetchResponse
		outcome, _ = m.Decode(body, 0, g.version)
		is.code, is.message = m.ErrorCode, nullable(m.ErrorMessage)
		for topic := range m.Responses.All() {
			is.topics++
			for p := range topic.Partitions.All() {
				rest := fmt.Sprint(p.ErrorCode, nullable(p.ErrorMessage), p.CurrentLeader, nullable(p.Records),
					slices.Collect(p.AcquiredRecords.All()), tagText(p.Tags), tagText(topic.Tags))
				t := target{topic.TopicID, p.PartitionIndex}
				is.rows = append(is.rows, row{t, p.AcknowledgeErrorCode, nullable(p.AcknowledgeErrorMessage), rest})
			}
		}
		is.rest = fmt.Sprint(m.ThrottleTimeMs, m.AcquisitionLockTimeoutMs, slices.Collect(m.NodeEndpoints.All()), tagText(m.Tags))
		return is, outcome
	case policy.ShareAcknowledge:
		var m codec.ShareAcknowledgeResponse
		outcome, _ = m.Decode(body, 0, g.version)
		is.code, is.message, is.rows, is.topics = m.ErrorCode, nullable(m.ErrorMessage), ackRowsOf(m.Responses), m.Responses.Len()
		is.rest = fmt.Sprint(m.ThrottleTimeMs, m.AcquisitionLockTimeoutMs, slices.Collect(m.NodeEndpoints.All()), tagText(m.Tags))
		return is, outcome
	}
	var m codec.TxnShareAcknowledgeResponse
	outcome, _ = m.Decode(body, 0, g.version)
	is.code, is.message, is.rows, is.topics = m.ErrorCode, "null", ackRowsOf(m.Responses), m.Responses.Len()
	is.rest = fmt.Sprint(m.ThrottleTimeMs, slices.Collect(m.NodeEndpoints.All()), tagText(m.Tags))
	return is, outcome
}

func ackRowsOf(topics codec.Array[codec.AckResultTopic]) (rows []row) {
	for topic := range topics.All() {
		for p := range topic.Partitions.All() {
			rest := fmt.Sprint(p.CurrentLeader, tagText(p.Tags), tagText(topic.Tags))
			rows = append(rows, row{target{topic.TopicID, p.PartitionIndex}, p.ErrorCode, nullable(p.ErrorMessage), rest})
		}
	}
	return rows
}

// checkMerge lets the broker answer what was forwarded, and compares what the client gets with the rules.
func checkMerge(g *gen, d *policy.Decision, forwarded message, merged *int) error {
	frame := brokerAnswers(g, forwarded.topics)
	was, outcome := readReply(g, frame)
	if outcome != codec.Exact {
		return fmt.Errorf("the model's answer is %v", outcome)
	}
	want := expectedReply(g, d, was)
	m := newMerge(d, g.carrier)
	if m == nil {
		if fmt.Sprint(want) != fmt.Sprint(was) {
			return fmt.Errorf("no merge for %+v", want)
		}
		return nil
	}
	out, did, err := m.apply(frame, 9, g.version)
	if err != nil || (did == overruled) != (was.code != 0) || (out != nil) != (did == changed) {
		return fmt.Errorf("effect %d, answer %x: %w", did, out, err)
	}
	if out == nil {
		out = frame
	}
	is, outcome := readReply(g, out)
	if outcome != codec.Exact || be32(out) != uint32(len(out)-4) || string(out[4:9]) != string(frame[4:9]) {
		return fmt.Errorf("the merged answer is %v: %x", outcome, out)
	}
	if err := sameReply(is, want); err != nil {
		return err
	}
	*merged++
	return nil
}

// expectedReply applies the rules partition by partition. The rest of a row that is new is empty.
func expectedReply(g *gen, d *policy.Decision, was seenAnswer) seenAnswer {
	want := was
	if was.code != 0 {
		return want
	}
	want.rows = slices.Clone(was.rows)
	var ours []row
	for _, p := range d.Partitions {
		ours = append(ours, row{target{p.TopicID, p.Index}, modelCode(p), "null", ""})
	}
	for _, e := range d.Replies {
		message := nullable(messageBytes(e.Message))
		if e.TopLevel {
			want.code, want.message = e.ErrorCode, message
			if g.carrier == policy.TxnShareAcknowledge {
				want.message = "null"
			}
			continue
		}
		t := target{e.TopicID, e.Partition}
		i := slices.IndexFunc(ours, func(r row) bool { return r.target == t })
		answered := slices.ContainsFunc(was.rows, func(r row) bool { return r.target == t })
		switch {
		case i < 0 && answered:
			ours = append(ours, row{t, e.ErrorCode, message, ""})
		case i >= 0 && (i >= len(d.Partitions) || modelCode(d.Partitions[i]) == 0):
			ours[i].code, ours[i].message = e.ErrorCode, message
		}
	}
	for _, o := range ours {
		i := slices.IndexFunc(want.rows, func(r row) bool { return r.target == o.target })
		switch {
		case o.code == 0:
		case i < 0:
			if !slices.ContainsFunc(want.rows, func(r row) bool { return r.topic == o.topic }) {
				want.topics++
			}
			want.rows = append(want.rows, o)
		case want.rows[i].code == 0:
			want.rows[i].code, want.rows[i].message = o.code, o.message
		}
	}
	return want
}

// modelCode is what a client is seenAnswer about what was withheld of a partition.
func modelCode(p policy.Decided) int16 {
	codes, forwarded := map[int16]bool{}, false
	for _, piece := range p.Pieces {
		if piece.Withheld {
			codes[piece.ErrorCode] = true
		} else {
			forwarded = true
		}
	}
	switch {
	case len(codes) == 0:
		return 0
	case len(codes) > 1 || forwarded && (codes[3] || codes[6] || codes[56]):
		return 121
	}
	for code := range codes {
		return code
	}
	return 0
}

func sameReply(is, want seenAnswer) error {
	if is.code != want.code || is.message != want.message || is.rest != want.rest || is.topics != want.topics || len(is.rows) != len(want.rows) {
		return fmt.Errorf("answer %+v, want %+v", is, want)
	}
	for _, w := range want.rows {
		i := slices.IndexFunc(is.rows, func(r row) bool { return r.target == w.target })
		if i < 0 || is.rows[i].code != w.code || is.rows[i].message != w.message || w.rest != "" && is.rows[i].rest != w.rest {
			return fmt.Errorf("%+v is not among %+v", w, is.rows)
		}
	}
	return nil
}
