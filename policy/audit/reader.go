package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Event is a line read back: what tools that compare and search need of it. Absent and null members are zero, pointers nil.
type Event struct {
	V      int    `json:"v"`
	Type   string `json:"type"`
	ID     string `json:"id"`
	Stream struct {
		ID          string `json:"id"`
		Seq         uint64 `json:"seq"`
		Part, Parts int
	} `json:"stream"`
	Time struct {
		Request time.Time  `json:"request"`
		Reply   *time.Time `json:"reply"`
		LostAt  *time.Time `json:"lost_at"`
		Event   *time.Time `json:"event"` // of control events
		TookMs  *float64   `json:"took_ms"`
	} `json:"time"`
	Proxy struct {
		Instance, Version, Listener string
	} `json:"proxy"`
	Actor     Actor    `json:"actor"`
	Target    Target   `json:"target"`
	Request   Request  `json:"request"`
	Ack       Ack      `json:"ack"`
	Verdict   Verdict  `json:"verdict"`
	Policy    []Action `json:"policy"`
	Control   *Control `json:"control"`
	Note      string   `json:"note"`
	Anomalies []string `json:"anomalies"`
}

// Actor is who acknowledged.
type Actor struct {
	Principal       string `json:"principal"`
	PrincipalSource string `json:"principal_source"`
	VerifiedBy      string `json:"verified_by"`
	Address         string `json:"address"`
	AddressSource   string `json:"address_source"`
	Claimed         struct {
		ClientID *string `json:"client_id"`
		Software string  `json:"software"`
	} `json:"claimed"`
	MemberID string `json:"member_id"`
}

// Target is what an event is about.
type Target struct {
	BrokerID      *int32 `json:"broker_id"`
	Upstream      string `json:"upstream"`
	Group         string `json:"group"`
	Topic         string `json:"topic"`
	TopicID       string `json:"topic_id"`
	TopicNameFrom string `json:"topic_name_from"`
	Partition     int32  `json:"partition"`
}

// Request is the request that an event comes from.
type Request struct {
	API           string `json:"api"`
	Carrier       string `json:"carrier"`
	APIKey        int16  `json:"api_key"`
	APIVersion    int16  `json:"api_version"`
	CorrelationID int32  `json:"correlation_id"`
	Connection    string `json:"connection"`
	SessionEpoch  *int32 `json:"session_epoch"`
	ClosesSession bool   `json:"closes_session"`
	RenewAck      bool   `json:"renew_ack"`
	Decode        string `json:"decode"`
	Problem       *struct {
		Reason string `json:"reason"`
		At     int    `json:"at"`
		Field  string `json:"field"`
	} `json:"problem"`
	FrameBytes  int    `json:"frame_bytes"`
	FrameSHA256 string `json:"frame_sha256"`
}

// Ack is what was asked, and what of it reached the broker.
type Ack struct {
	Mode          string    `json:"mode"`
	Asked         []Range   `json:"asked"`
	Forwarded     Forwarded `json:"forwarded"`
	Records       Offset    `json:"records"`
	LockTimeoutMs int32     `json:"lock_timeout_ms"`
}

// Forwarded is what reached the broker: the same as was asked, or Ranges, or where there are none nothing.
type Forwarded struct {
	Same   bool
	Ranges []Range
}

// UnmarshalJSON reads "same", or a list of ranges.
func (f *Forwarded) UnmarshalJSON(b []byte) error {
	*f = Forwarded{}
	if string(b) == `"same"` {
		f.Same = true
		return nil
	}
	if err := json.Unmarshal(b, &f.Ranges); err != nil {
		return fmt.Errorf("forwarded: %w", err)
	}
	return nil
}

// Action is what a policy did. Name is empty for what the policies of a chain did together: answer, delay, close.
type Action struct {
	Name   string      `json:"name"`
	Action string      `json:"action"` // change, withhold, failed, answer, delay, close
	Ranges []EditRange `json:"ranges"` // of change and withhold
	Reason string      `json:"reason"` // likewise

	Error   string  `json:"error"` // of failed, until TookMs
	Did     string  `json:"did"`   // forward, respond, close
	TookMs  float64 `json:"took_ms"`
	Omitted int     `json:"omitted"` // failures that the line had no room for

	Scope     string `json:"scope"` // of answer, until ErrorName: partition, request
	ErrorCode int16  `json:"error_code"`
	ErrorName string `json:"error_name"`

	ForwardMs float64 `json:"forward_ms"` // of delay
	ReplyMs   float64 `json:"reply_ms"`
	At        string  `json:"at"` // of close: before, after, truncated, replied
}

// EditRange is a range of offsets that a policy edited, both ends included. To is empty where it was withheld.
type EditRange struct {
	First Offset `json:"first"`
	Last  Offset `json:"last"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// Range is one range of offsets, both ends included. Type is empty where the batch broke the array rule; Types are then what it had.
type Range struct {
	First      Offset   `json:"first"`
	Last       Offset   `json:"last"`
	Type       string   `json:"type"`
	Types      []string `json:"types"`
	TypesCount int      `json:"types_count"`
	Superseded bool     `json:"superseded"`
}

// Verdict is what the broker said, or of what did not reach it (state not_sent) what the client was told.
type Verdict struct {
	State        string  `json:"state"`
	Scope        string  `json:"scope"`
	AnsweredBy   string  `json:"answered_by"`
	ErrorCode    *int16  `json:"error_code"`
	ErrorName    string  `json:"error_name"`
	ErrorMessage *string `json:"error_message"`
	Reason       string  `json:"reason"` // why there is no error code
}

// Control is the control object of an audit.control event; all from Lost on is there in gaps only.
type Control struct {
	Kind            string            `json:"kind"`
	Reason          string            `json:"reason"`
	Sink            string            `json:"sink"`
	Connection      string            `json:"connection"`
	Lost            map[string]uint64 `json:"lost"`
	FirstSeq        uint64            `json:"first_seq"`
	LastSeq         uint64            `json:"last_seq"`
	From            time.Time         `json:"from"`
	To              time.Time         `json:"to"`
	Groups          []string          `json:"groups"`
	GroupsTruncated bool              `json:"groups_truncated"`
}

// Offset reads an offset or a count: a JSON number, or a string of digits.
type Offset int64

// UnmarshalJSON reads either form.
func (o *Offset) UnmarshalJSON(b []byte) error {
	if n := len(b); n >= 2 && b[0] == '"' {
		b = b[1 : n-1]
	}
	v, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return fmt.Errorf("offset: %w", err)
	}
	*o = Offset(v)
	return nil
}

// Reader reads a log event by event.
type Reader struct{ r *bufio.Reader }

// NewReader reads from r, which stays the caller's.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, 2*maxLine)} }

// Next is the next event. The end is io.EOF; io.ErrUnexpectedEOF is an end inside a line, as in a file that is being written.
func (r *Reader) Next() (*Event, error) {
	line, err := r.r.ReadBytes('\n')
	switch {
	case err == io.EOF && len(line) > 0:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	}
	return ParseLine(line)
}

// ParseLine reads one line of the log, with or without its line end.
func ParseLine(line []byte) (*Event, error) {
	e := new(Event)
	if err := json.Unmarshal(line, e); err != nil {
		return nil, fmt.Errorf("audit line: %w", err)
	}
	return e, nil
}
