package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Exchange is a request and its answer, whole frames with their sizes. The answer is nil where the connection ended first.
type Exchange struct {
	Key, Version    int16
	ClientID        string
	Request, Answer []byte
}

// frames cuts a stream; rest is what is left of an unfinished frame.
func frames(stream []byte) (whole [][]byte, rest []byte) {
	for len(stream) >= 4 {
		size := int(binary.BigEndian.Uint32(stream)) + 4
		if size < 4 || len(stream) < size {
			break
		}
		whole, stream = append(whole, stream[:size]), stream[size:]
	}
	return whole, stream
}

// Exchanges joins the requests and answers of a connection, and checks that the answers come in order. Produce without
// acknowledgements, which has no answer, is refused: no test sends it.
func Exchanges(toServer, toClient []byte) (all []Exchange, err error) {
	requests, rest := frames(toServer)
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes of an unfinished request", len(rest))
	}
	answers, _ := frames(toClient)
	if len(answers) > len(requests) {
		return nil, fmt.Errorf("%d answers to %d requests", len(answers), len(requests))
	}
	for i, q := range requests {
		if len(q) < 14 {
			return nil, fmt.Errorf("request of %d bytes", len(q))
		}
		r := kbin.Reader{Src: q[4:]}
		e := Exchange{Key: r.Int16(), Version: r.Int16(), Request: q}
		correlation := r.Int32()
		if id := r.NullableString(); id != nil {
			e.ClientID = *id
		}
		if i < len(answers) {
			e.Answer = answers[i]
			if got := int32(binary.BigEndian.Uint32(e.Answer[4:])); got != correlation {
				return nil, fmt.Errorf("answer %d has correlation id %d instead of %d", i, got, correlation)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// Response decodes the answer and makes sure that it encodes to the same bytes, so that comparing what was decoded compares all of it.
func (e Exchange) Response() (kmsg.Response, error) {
	r := kmsg.ResponseForKey(e.Key)
	if r == nil {
		return nil, fmt.Errorf("key %d has no known answer", e.Key)
	}
	r.SetVersion(e.Version)
	body := e.Answer[8:]
	if r.IsFlexible() && e.Key != 18 {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("%s: tags in the answer's header", kmsg.NameForKey(e.Key))
		}
		body = body[1:]
	}
	if err := r.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: %w", kmsg.NameForKey(e.Key), e.Version, err)
	}
	if again := r.AppendTo(nil); string(again) != string(body) {
		return nil, fmt.Errorf("%s v%d: %d bytes decode and encode to other %d bytes", kmsg.NameForKey(e.Key), e.Version, len(body), len(again))
	}
	return r, nil
}
