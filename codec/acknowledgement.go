package codec

// AckTopic is one topic's acknowledgements: in ShareAcknowledge, ShareFetch and TxnShareAcknowledge requests alike.
type AckTopic struct {
	TopicID    UUID
	Partitions Array[AckPartition]
	Tags       Tags
}

func (t *AckTopic) walk(w *walker) {
	w.uuid("TopicId", &t.TopicID)
	array(w, "Partitions", &t.Partitions, &ackPartitionShape)
	w.tags(&t.Tags)
}

// AckPartition is one partition's acknowledgements. In a ShareFetch it also adds the partition to the share session (KIP-932), with or
// without batches.
type AckPartition struct {
	PartitionIndex    int32
	PartitionMaxBytes int32 // ShareFetch v0 only; there 0 means that it only acknowledges
	Batches           Array[AckBatch]
	Tags              Tags
}

func (p *AckPartition) walk(w *walker) {
	w.int32("PartitionIndex", &p.PartitionIndex)
	if w.has(hasMaxBytes) {
		w.int32("PartitionMaxBytes", &p.PartitionMaxBytes)
	}
	array(w, "AcknowledgementBatches", &p.Batches, &ackBatchShape)
	w.tags(&p.Tags)
}

// AckBatch acknowledges the offsets FirstOffset to LastOffset, both included. Any range is legal on the wire: never expand one.
type AckBatch struct {
	FirstOffset, LastOffset int64
	Types                   []byte // one int8 each: a single one is for the whole range, else one per offset
	Tags                    Tags
}

func (b *AckBatch) walk(w *walker) {
	w.int64("FirstOffset", &b.FirstOffset)
	w.int64("LastOffset", &b.LastOffset)
	w.int8s("AcknowledgeTypes", &b.Types)
	w.tags(&b.Tags)
}
