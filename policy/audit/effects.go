package audit

import (
	"strconv"

	"github.com/ackproxy/ackproxy/policy"
)

// effectsRoom bounds the elements of policy that concern the request or the answer, in bytes. Failed steps beyond it are counted only.
const effectsRoom = 1024

var closeNames = [...]string{
	policy.CloseBefore: "before", policy.CloseAfter: "after", policy.CloseReplied: "replied", policy.CloseTruncated: "truncated",
}

// appendEffects appends what policies did to a request and its answer, other than to ranges: answers, delay, close, failures. Head is nil
// where the event is about no partition. There must be a decision.
func appendEffects(dst []byte, o *policy.Outcome, top *verdict, head *entry) []byte {
	d, start := o.Decision, len(dst)
	dst = appendAnswers(dst, d, top, head)
	if d.DelayForward > 0 || d.DelayReply > 0 {
		dst = append(dst, `,{"action":"delay","forward_ms":`...)
		dst = appendMillis(dst, d.DelayForward)
		dst = append(dst, `,"reply_ms":`...)
		dst = appendMillis(dst, d.DelayReply)
		dst = append(dst, '}')
	}
	if d.Close != policy.CloseNever && !d.Gone { // else no policy cut the connection
		dst = append(dst, `,{"action":"close","at":"`...)
		dst = append(append(dst, closeNames[d.Close]...), `"}`...)
	}
	return appendFailures(dst, d, start+effectsRoom)
}

// appendAnswers appends the errors that policies put into the answer. They did so only where the answer reached the client and the
// broker had no error there itself; beside that, the code of what is withheld comes before that of a reply edit.
func appendAnswers(dst []byte, d *policy.Decision, top *verdict, head *entry) []byte {
	if top.state != accepted || !reachesClient(d) {
		return dst
	}
	if head != nil && head.reply != nil && head.code == 0 && (head.edited == nil || head.edited.Code() == 0) {
		dst = appendAnswer(dst, "partition", head.reply.ErrorCode)
	}
	for i := range d.Replies {
		if r := &d.Replies[i]; r.TopLevel {
			return appendAnswer(dst, "request", r.ErrorCode)
		}
	}
	return dst
}

func appendAnswer(dst []byte, scope string, code int16) []byte {
	dst = append(dst, `,{"action":"answer","scope":"`...)
	dst = append(dst, scope...)
	dst = append(dst, `","error_code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"error_name":`...)
	dst = appendTextOrNull(dst, ErrorName(code))
	return append(dst, '}')
}

// appendFailures appends the steps that failed, as far as dst stays within most bytes.
func appendFailures(dst []byte, d *policy.Decision, most int) []byte {
	omitted := 0
	for i := range d.Trail {
		s := &d.Trail[i]
		if s.Err == nil || d.Gone && s.Failed == policy.FailClose { // there the client failed, not the policy
			continue
		}
		before := len(dst)
		dst = append(dst, `,{"name":`...)
		dst = appendShort(dst, s.Policy)
		dst = append(dst, `,"action":"failed","error":`...)
		dst = appendShort(dst, s.Err.Error())
		dst = append(dst, `,"did":"`...)
		dst = append(dst, s.Failed.String()...)
		dst = append(dst, `","took_ms":`...)
		dst = appendMillis(dst, s.Took)
		dst = append(dst, '}')
		if len(dst) > most {
			dst = dst[:before]
			omitted++
		}
	}
	if omitted > 0 {
		dst = append(dst, `,{"action":"failed","omitted":`...)
		dst = strconv.AppendInt(dst, int64(omitted), 10)
		dst = append(dst, '}')
	}
	return dst
}

// policies appends the list policy: edits, then the effects. Each element of both begins with a comma, and there is one at least.
func (f *formatter) policies(dst, edits []byte) []byte {
	dst = append(dst, `,"policy":[`...)
	first := len(dst)
	dst = append(append(dst, edits...), f.effects...)
	return append(append(dst[:first], dst[first+1:]...), ']')
}
