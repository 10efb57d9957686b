package dlq

import (
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// The broker's verdicts in metrics.
const (
	verdictAccepted = "accepted"
	verdictRefused  = "refused" // the record comes again, or is gone: its dead letter may be a duplicate, or the only copy
	verdictUnknown  = "unknown"
)

// Observe learns what the broker made of the Rejects, and which last deliveries have ended.
func (p *Policy) Observe(o *policy.Outcome) {
	if o.Kind != policy.Acknowledgement || o.Decision == nil || o.Decision.Close == policy.CloseBefore { // nothing was forwarded
		return
	}
	for i := range o.Decision.Partitions {
		d := &o.Decision.Partitions[i]
		verdict := ""
		for j := range d.Pieces {
			piece := &d.Pieces[j]
			if piece.Withheld {
				continue
			}
			if verdict == "" {
				verdict = verdictOf(&o.Reply, d.TopicID, d.Index)
			}
			if piece.Forwarded == policy.Reject && o.Request.Carrier != policy.TxnShareAcknowledge { // which takes effect at the commit
				p.metrics.verdicts.WithLabelValues(verdict).Add(min(float64(piece.Last)-float64(piece.First)+1, policy.MostCounted))
			}
			p.last.acknowledged(o, d, piece, verdict)
		}
	}
}

// verdictOf is what the broker said of a partition's acknowledgements.
func verdictOf(r *policy.Reply, topic codec.UUID, partition int32) string {
	if r.State != policy.Answered {
		return verdictUnknown
	}
	if r.ErrorCode != 0 {
		return verdictRefused
	}
	for i := range r.Partitions {
		if one := &r.Partitions[i]; one.TopicID == topic && one.Partition == partition {
			if one.ErrorCode != 0 {
				return verdictRefused
			}
			return verdictAccepted
		}
	}
	return verdictUnknown
}
