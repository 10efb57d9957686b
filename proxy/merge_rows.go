package proxy

import "github.com/ackproxy/ackproxy/codec"

// rowsOf says where the verdicts about acknowledgements stand in the topics T and partitions P of an answer.
type rowsOf[T codec.AckResultTopic | codec.FetchResultTopic, P codec.AckResult | codec.FetchResult] struct {
	topic func(*T) (*codec.UUID, *codec.Array[P])
	row   func(*P) (partition int32, code *int16, message *[]byte)
	make  func(partition int32, code int16) P
}

var ackRows = rowsOf[codec.AckResultTopic, codec.AckResult]{
	topic: func(t *codec.AckResultTopic) (*codec.UUID, *codec.Array[codec.AckResult]) {
		return &t.TopicID, &t.Partitions
	},
	row: func(p *codec.AckResult) (int32, *int16, *[]byte) {
		return p.PartitionIndex, &p.ErrorCode, &p.ErrorMessage
	},
	make: codec.NewAckResult,
}

var fetchRows = rowsOf[codec.FetchResultTopic, codec.FetchResult]{
	topic: func(t *codec.FetchResultTopic) (*codec.UUID, *codec.Array[codec.FetchResult]) {
		return &t.TopicID, &t.Partitions
	},
	row: func(p *codec.FetchResult) (int32, *int16, *[]byte) {
		return p.PartitionIndex, &p.AcknowledgeErrorCode, &p.AcknowledgeErrorMessage
	},
	make: codec.NewFetchResult,
}

// mergeTopics puts our verdicts into the topics of an answer.
func mergeTopics[T codec.AckResultTopic | codec.FetchResultTopic, P codec.AckResult | codec.FetchResult](
	m *merge, in codec.Array[T], of rowsOf[T, P],
) (codec.Array[T], effect) {
	missing, applies := outstanding(m, in, of)
	if !applies && len(missing.order) == 0 {
		return in, unchanged
	}
	var out codec.Array[T]
	for t := range in.All() {
		id, partitions := of.topic(&t)
		var rows codec.Array[P]
		for p := range partitions.All() {
			n, code, message := of.row(&p)
			if i, ok := m.index[target{*id, n}]; ok && *code == 0 && m.rows[i].code != 0 {
				*code, *message = m.rows[i].code, m.rows[i].message
			}
			rows.Append(p)
		}
		addRows(&rows, missing.take(*id), of)
		*partitions = rows
		out.Append(t)
	}
	for _, topic := range missing.order {
		if left := missing.take(topic); len(left) > 0 {
			var t T
			id, partitions := of.topic(&t)
			*id = topic
			addRows(partitions, left, of)
			out.Append(t)
		}
	}
	return out, changed
}

func addRows[T codec.AckResultTopic | codec.FetchResultTopic, P codec.AckResult | codec.FetchResult](
	to *codec.Array[P], list []*verdict, of rowsOf[T, P],
) {
	for _, v := range list {
		p := of.make(v.partition, v.code)
		_, _, message := of.row(&p)
		*message = v.message
		to.Append(p)
	}
}

// absent are the verdicts that an answer has no row for.
type absent struct {
	order []codec.UUID // of the topics, each once
	rows  map[codec.UUID][]*verdict
}

// take hands out the rows of a topic, once.
func (a *absent) take(topic codec.UUID) []*verdict {
	list := a.rows[topic]
	delete(a.rows, topic)
	return list
}

// outstanding finds the verdicts that in has no row for, and says whether it has a row that takes one.
func outstanding[T codec.AckResultTopic | codec.FetchResultTopic, P codec.AckResult | codec.FetchResult](
	m *merge, in codec.Array[T], of rowsOf[T, P],
) (a absent, applies bool) {
	seen := make([]bool, len(m.rows))
	for t := range in.All() {
		id, partitions := of.topic(&t)
		for p := range partitions.All() {
			n, code, _ := of.row(&p)
			if i, ok := m.index[target{*id, n}]; ok {
				seen[i] = true
				applies = applies || *code == 0 && m.rows[i].code != 0
			}
		}
	}
	a.rows = map[codec.UUID][]*verdict{}
	for i := range m.rows {
		if v := &m.rows[i]; v.asked && v.code != 0 && !seen[i] {
			if a.rows[v.topic] == nil {
				a.order = append(a.order, v.topic)
			}
			a.rows[v.topic] = append(a.rows[v.topic], v)
		}
	}
	return a, applies
}
