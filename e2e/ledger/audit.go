// Package ledger holds what clients say of their acknowledgements against what the audit file says, record by record.
package ledger

import (
	"bufio"
	"fmt"
	"os"

	"github.com/ackproxy/ackproxy/policy/audit"
)

// maxRange bounds what is expanded: no test acknowledges more at once.
const maxRange = 1 << 20

// ReadAudit reads the lines of an audit file, and makes sure that none is missing: sequence numbers go up by one, and nothing was
// dropped or could not be read.
func ReadAudit(path string) ([]*audit.Event, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []*audit.Event
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		e, err := audit.ParseLine(scan.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %s", path, len(all)+1, err, scan.Text())
		}
		if n := len(all); n > 0 && e.Stream.Seq != all[n-1].Stream.Seq+1 {
			return nil, fmt.Errorf("%s:%d: sequence number %d after %d", path, n+1, e.Stream.Seq, all[n-1].Stream.Seq)
		}
		if e.Type == "share.undecodable" || e.Control != nil && e.Control.Kind == "gap" {
			return nil, fmt.Errorf("%s:%d: %s", path, len(all)+1, scan.Text())
		}
		all = append(all, e)
	}
	return all, scan.Err()
}

// Entry is one record in one audited acknowledgement.
type Entry struct {
	Type, State, Carrier string
	Code                 int16 // -1 where there is none
}

// Entries are the audited acknowledgements of a group and a topic: by client id and record, in the order of the file.
func Entries(lines []*audit.Event, group, topicID string) (map[Key][]Entry, error) {
	all := map[Key][]Entry{}
	for _, l := range lines {
		if l.Type != "share.ack" || l.Target.Group != group || l.Target.TopicID != topicID {
			continue
		}
		if l.Actor.Claimed.ClientID == nil || l.Request.Decode != "exact" {
			return nil, fmt.Errorf("audit line %d: no client id, or a request that is not exact: %+v", l.Stream.Seq, l)
		}
		code := int16(-1)
		if l.Verdict.ErrorCode != nil {
			code = *l.Verdict.ErrorCode
		}
		for _, r := range l.Ack.Asked {
			if r.First < 0 || r.Last < r.First || r.Last-r.First > maxRange || r.Superseded {
				return nil, fmt.Errorf("audit line %d: range %+v", l.Stream.Seq, r)
			}
			for o := r.First; o <= r.Last; o++ {
				k := Key{*l.Actor.Claimed.ClientID, l.Target.Partition, int64(o)}
				all[k] = append(all[k], Entry{r.Type, l.Verdict.State, l.Request.Carrier, code})
			}
		}
	}
	return all, nil
}
