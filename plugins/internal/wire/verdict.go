package wire

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

// What a verdict may hold at most: applying edits costs the proxy time, and reasons go into audit lines.
const (
	maxEdits  = 1 << 14
	maxReason = 512 // bytes; more is cut
)

// FromVerdict translates a verdict.
func FromVerdict(v *policy.Verdict) *policyv1.Verdict {
	m := &policyv1.Verdict{
		DelayForward: duration(v.DelayForward), DelayReply: duration(v.DelayReply),
		Close: policyv1.Close(v.Close), CloseAfter: int32(v.CloseAfter), Reason: text(v.Reason),
	}
	for i := range v.Edits {
		e := &v.Edits[i]
		edit := &policyv1.Edit{TopicId: e.TopicID[:], Partition: e.Partition, First: e.First, Last: e.Last, Reason: text(e.Reason)}
		if e.Action == policy.Withhold {
			edit.Action = &policyv1.Edit_Withhold{Withhold: &policyv1.Withhold{ErrorCode: int32(e.ErrorCode)}}
		} else {
			edit.Action = &policyv1.Edit_Change{Change: policyv1.AcknowledgeType(e.Type)}
		}
		m.Edits = append(m.Edits, edit)
	}
	m.Replies = fromReplies(v.Replies)
	return m
}

func fromReplies(replies []policy.ReplyEdit) (ms []*policyv1.ReplyEdit) {
	for i := range replies {
		r := &replies[i]
		ms = append(ms, &policyv1.ReplyEdit{
			TopLevel: r.TopLevel, TopicId: append([]byte(nil), r.TopicID[:]...), Partition: r.Partition,
			ErrorCode: int32(r.ErrorCode), Message: text(r.Message),
		})
	}
	return ms
}

// ToVerdict translates a plugin's verdict, and refuses one that means nothing.
func ToVerdict(m *policyv1.Verdict) (v policy.Verdict, err error) {
	if n := len(m.GetEdits()) + len(m.GetReplies()); n > maxEdits {
		return v, fmt.Errorf("%d edits, more than %d", n, maxEdits)
	}
	if v.DelayForward, err = delay(m.GetDelayForward()); err != nil {
		return v, err
	}
	if v.DelayReply, err = delay(m.GetDelayReply()); err != nil {
		return v, err
	}
	if v.Close, err = toClose(m.GetClose()); err != nil {
		return v, err
	}
	if v.CloseAfter = int(m.GetCloseAfter()); v.CloseAfter < 0 {
		return v, fmt.Errorf("close_after of %d bytes", v.CloseAfter)
	}
	v.Reason = cut(m.GetReason())
	for i, e := range m.GetEdits() {
		edit, err := toEdit(e)
		if err != nil {
			return v, fmt.Errorf("edits[%d]: %w", i, err)
		}
		v.Edits = append(v.Edits, edit)
	}
	v.Replies, err = toReplies(m.GetReplies())
	return v, err
}

func toEdit(m *policyv1.Edit) (e policy.Edit, err error) {
	e = policy.Edit{Partition: m.GetPartition(), First: m.GetFirst(), Last: m.GetLast(), Reason: cut(m.GetReason())}
	if e.First > e.Last {
		return e, fmt.Errorf("offsets %d to %d", e.First, e.Last)
	}
	if e.TopicID, err = uuid(m.GetTopicId()); err != nil {
		return e, err
	}
	switch a := m.GetAction().(type) {
	case *policyv1.Edit_Change:
		if a.Change < 0 || a.Change > policyv1.AcknowledgeType(policy.Renew) {
			return e, fmt.Errorf("unknown type %d", a.Change)
		}
		e.Type = int8(a.Change)
	case *policyv1.Edit_Withhold:
		e.Action = policy.Withhold
		e.ErrorCode, err = errorCode(a.Withhold.GetErrorCode())
	default:
		err = errors.New("neither change nor withhold")
	}
	return e, err
}

func toReplies(ms []*policyv1.ReplyEdit) (replies []policy.ReplyEdit, err error) {
	for i, m := range ms {
		r := policy.ReplyEdit{TopLevel: m.GetTopLevel(), Partition: m.GetPartition(), Message: cut(m.GetMessage())}
		if r.ErrorCode, err = errorCode(m.GetErrorCode()); err != nil {
			return nil, fmt.Errorf("replies[%d]: %w", i, err)
		}
		if !r.TopLevel {
			if r.TopicID, err = uuid(m.GetTopicId()); err != nil {
				return nil, fmt.Errorf("replies[%d]: %w", i, err)
			}
		}
		replies = append(replies, r)
	}
	return replies, nil
}

func toClose(m policyv1.Close) (policy.Close, error) {
	if m < 0 || m > policyv1.Close(policy.CloseTruncated) {
		return 0, fmt.Errorf("unknown close %d", m)
	}
	return policy.Close(m), nil
}

func errorCode(code int32) (int16, error) {
	if code < math.MinInt16 || code > math.MaxInt16 {
		return 0, fmt.Errorf("error code %d", code)
	}
	return int16(code), nil
}

func delay(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	if err := m.CheckValid(); err != nil {
		return 0, err
	}
	if d := m.AsDuration(); d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("a delay of %v", m.AsDuration())
}

// cut shortens a text to maxReason bytes, at the start of a character.
func cut(s string) string {
	if len(s) <= maxReason {
		return s
	}
	n := maxReason
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
