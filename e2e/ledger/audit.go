// Package ledger holds what clients say of their acknowledgements against what the audit file says, record by record.
package ledger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// Line is what the comparison needs of an audit line.
type Line struct {
	Type   string
	Stream struct{ Seq uint64 }
	Actor  struct {
		Claimed struct {
			ClientID string `json:"client_id"`
		}
	}
	Target struct {
		Group     string
		Topic     *string
		TopicID   string `json:"topic_id"`
		Partition int32
	}
	Request struct {
		Carrier, Decode string
		ClosesSession   bool `json:"closes_session"`
	}
	Ack struct {
		Asked []Range
	}
	Verdict struct {
		State     string
		ErrorCode int16 `json:"error_code"`
	}
}

// Range is acknowledged offsets.
type Range struct {
	First, Last int64
	Type        string
}

// maxRange bounds what is expanded: no test acknowledges more at once.
const maxRange = 1 << 20

// ReadAudit reads the lines of an audit file.
func ReadAudit(path string) ([]Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []Line
	scan := bufio.NewScanner(f)
	for n := 1; scan.Scan(); n++ {
		var l Line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %s", path, n, err, scan.Text())
		}
		all = append(all, l)
	}
	return all, scan.Err()
}

// Entry is one record in one audited acknowledgement.
type Entry struct {
	Type, State, Carrier string
	Code                 int16
}

// Entries are the audited acknowledgements of a group and a topic: by client id and record, in the order of the file.
func Entries(lines []Line, group, topicID string) (map[Key][]Entry, error) {
	all := map[Key][]Entry{}
	for _, l := range lines {
		if l.Type != "share.ack" || l.Target.Group != group || l.Target.TopicID != topicID {
			continue
		}
		for _, r := range l.Ack.Asked {
			if r.First < 0 || r.Last < r.First || r.Last-r.First > maxRange {
				return nil, fmt.Errorf("audit line %d: range %+v", l.Stream.Seq, r)
			}
			for o := r.First; o <= r.Last; o++ {
				k := Key{l.Actor.Claimed.ClientID, l.Target.Partition, o}
				all[k] = append(all[k], Entry{r.Type, l.Verdict.State, l.Request.Carrier, l.Verdict.ErrorCode})
			}
		}
	}
	return all, nil
}
