package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy/audit"
)

// meaning says what a value means, where the value does not say it itself.
func meaning(n, parent *node, o *object) string {
	switch v := n.Value.(type) {
	case codec.UUID:
		if v == (codec.UUID{}) {
			return "no id"
		}
		return "Kafka writes it " + v.String()
	case int64:
		return numberMeaning(n, v, o)
	case bool:
		if n.Name == "IsRenewAck" && v {
			return "acknowledgements may renew locks (KIP-1222)"
		}
	case []byte:
		if n.Name == "Records" && len(v) > 0 {
			return "record batches, shown with --payloads"
		}
	case nil:
		switch {
		case n.Name == "CurrentLeader":
			return leaderMeaning(n)
		case parent != nil && parent.Name == "AcknowledgementBatches":
			return batchMeaning(n)
		}
	}
	return ""
}

func numberMeaning(n *node, v int64, o *object) string {
	switch name := n.Name; {
	case name == "RequestApiKey":
		return o.API
	case name == "ErrorCode", name == "AcknowledgeErrorCode":
		if e := audit.ErrorName(int16(v)); e != "" {
			return e
		}
		return "not an error of Kafka 4.4"
	case name == "ShareSessionEpoch":
		return epochMeaning(v, o)
	case name == "ShareAcquireMode":
		return acquireMode(v)
	case name == "DeliveryCount":
		return "how often each was delivered, this time included"
	case name == "LeaderId" && v == -1:
		return "not known"
	case name == "LeaderEpoch" && v == -1:
		return "not known"
	case name == "ProducerId" && v == -1, name == "ProducerEpoch" && v == -1:
		return "none"
	case strings.HasSuffix(name, "Ms") && v >= 1000:
		return config.Duration(time.Duration(v) * time.Millisecond).String()
	case strings.HasSuffix(name, "Bytes") && v >= 1024 && v%1024 == 0:
		return config.Size(v).String()
	case name == "MaxBytes" && v == 1<<31-1:
		return "no limit"
	case name == "Topics" && v == 0 && o.APIKey == codec.KeyShareAcknowledge:
		return "nothing is acknowledged, the session's epoch moves all the same"
	}
	return ""
}

func epochMeaning(v int64, o *object) string {
	switch {
	case v == -1:
		return "closes the share session"
	case v == 0 && o.APIKey == codec.KeyShareFetch:
		return "opens a share session"
	case v == 0:
		return "refused: only ShareFetch opens a share session"
	case v < -1:
		return "refused"
	}
	return ""
}

func acquireMode(v int64) string {
	switch v {
	case 0:
		return "batch-optimized"
	case 1:
		return "record-limit (KIP-1206)"
	}
	return "refused"
}

// leaderMeaning explains the zeros that Java brokers write where they have no hint to give.
func leaderMeaning(n *node) string {
	id, _ := n.number("LeaderId")
	epoch, ok := n.number("LeaderEpoch")
	if ok && id == 0 && epoch == 0 {
		return "0/0 is no hint, unless the error is 6 or 74"
	}
	return ""
}

// batchMeaning sums a batch up, and names the rule that it breaks. One type counts for the whole range, otherwise there is one for
// each offset.
func batchMeaning(n *node) string {
	first, _ := n.number("FirstOffset")
	last, ok := n.number("LastOffset")
	p := n.part("AcknowledgeTypes")
	if !ok || p == nil {
		return ""
	}
	types, _ := p.Value.([]byte)
	count := uint64(last) - uint64(first) + 1
	switch {
	case first > last:
		return "brokers refuse it: first above last"
	case len(types) == 0:
		return "brokers refuse it: no types"
	case len(types) == 1:
		return fmt.Sprintf("%s %d to %d", audit.TypeName(int8(types[0])), first, last)
	case uint64(len(types)) != count:
		return fmt.Sprintf("brokers refuse it: %d types for %d offsets", len(types), count)
	}
	return fmt.Sprintf("one type for each of %d to %d", first, last)
}
