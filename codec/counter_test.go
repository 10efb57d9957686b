package codec

import (
	"encoding/json"
	"fmt"
	"testing"
)

func num(n int) json.Number { return json.Number(fmt.Sprint(n)) }

// counter looks at every element of a message, and fails when an array yields more of them than it says it has, or than the bytes it
// came from can hold.
type counter struct {
	t    *testing.T
	left int
}

func visit[T element](c *counter, a Array[T], f func(*counter, T)) {
	n := 0
	for e := range a.All() {
		if n++; c.left <= 0 {
			c.t.Fatal("more elements than bytes")
		}
		c.left--
		f(c, e)
	}
	if n != a.Len() {
		c.t.Fatalf("%d elements of %d", n, a.Len())
	}
}

func (c *counter) tags(t Tags) {
	n := 0
	for range t.All() {
		n++
	}
	if n != t.Len() {
		c.t.Fatalf("%d tags of %d", n, t.Len())
	}
}

func (c *counter) int32(int32) {}

func (c *counter) ackTopic(v AckTopic) {
	visit(c, v.Partitions, (*counter).ackPartition)
	c.tags(v.Tags)
}

func (c *counter) ackPartition(v AckPartition) {
	visit(c, v.Batches, (*counter).ackBatch)
	c.tags(v.Tags)
}

func (c *counter) ackBatch(v AckBatch) { c.tags(v.Tags) }

func (c *counter) forgotten(v ForgottenTopic) {
	visit(c, v.Partitions, (*counter).int32)
	c.tags(v.Tags)
}

func (c *counter) ackResultTopic(v AckResultTopic) {
	visit(c, v.Partitions, (*counter).ackResult)
	c.tags(v.Tags)
}

func (c *counter) ackResult(v AckResult) {
	c.tags(v.CurrentLeader.Tags)
	c.tags(v.Tags)
}

func (c *counter) fetchResultTopic(v FetchResultTopic) {
	visit(c, v.Partitions, (*counter).fetchResult)
	c.tags(v.Tags)
}

func (c *counter) fetchResult(v FetchResult) {
	c.tags(v.CurrentLeader.Tags)
	visit(c, v.AcquiredRecords, (*counter).acquired)
	c.tags(v.Tags)
}

func (c *counter) acquired(v AcquiredRecord) { c.tags(v.Tags) }

func (c *counter) endpoint(v NodeEndpoint) { c.tags(v.Tags) }

func (c *counter) listener(v Listener) { c.tags(v.Tags) }

func (c *counter) shareFetchRequest(m *ShareFetchRequest) {
	visit(c, m.Topics, (*counter).ackTopic)
	visit(c, m.ForgottenTopicsData, (*counter).forgotten)
	c.tags(m.Tags)
}

func (c *counter) shareFetchResponse(m *ShareFetchResponse) {
	visit(c, m.Responses, (*counter).fetchResultTopic)
	visit(c, m.NodeEndpoints, (*counter).endpoint)
	c.tags(m.Tags)
}

func (c *counter) shareAcknowledgeRequest(m *ShareAcknowledgeRequest) {
	visit(c, m.Topics, (*counter).ackTopic)
	c.tags(m.Tags)
}

func (c *counter) shareAcknowledgeResponse(m *ShareAcknowledgeResponse) {
	visit(c, m.Responses, (*counter).ackResultTopic)
	visit(c, m.NodeEndpoints, (*counter).endpoint)
	c.tags(m.Tags)
}

func (c *counter) addRaftVoterRequest(m *AddRaftVoterRequest) {
	visit(c, m.Listeners, (*counter).listener)
	c.tags(m.Tags)
}

func (c *counter) addRaftVoterResponse(m *AddRaftVoterResponse) { c.tags(m.Tags) }

func (c *counter) txnShareAcknowledgeRequest(m *TxnShareAcknowledgeRequest) {
	visit(c, m.Topics, (*counter).ackTopic)
	c.tags(m.Tags)
}

func (c *counter) txnShareAcknowledgeResponse(m *TxnShareAcknowledgeResponse) {
	visit(c, m.Responses, (*counter).ackResultTopic)
	visit(c, m.NodeEndpoints, (*counter).endpoint)
	c.tags(m.Tags)
}
