package codec

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The header of every request that kmsg can write, in every version, is read, and ends where the body begins.
func TestRequestHeadersAgainstKmsg(t *testing.T) {
	withID := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client"))
	without := kmsg.NewRequestFormatter()
	headers := 0
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		for version := range req.MaxVersion() + 1 {
			if key == KeyControlledShutdown && version == 0 {
				continue // the one with header version 0, which kmsg does not write
			}
			req.SetVersion(version)
			checkRequestHeader(t, withID.AppendRequest(nil, req, -7), req, "client")
			checkRequestHeader(t, without.AppendRequest(nil, req, -7), req, "")
			headers++
		}
	}
	if headers < 300 {
		t.Errorf("only %d headers were looked at", headers)
	}
}

func checkRequestHeader(t *testing.T, frame []byte, req kmsg.Request, client string) {
	t.Helper()
	h, body, o, p := DecodeRequestHeader(frame, 0)
	name := Name(req.Key())
	if o != Exact || h.APIKey != req.Key() || h.APIVersion != req.GetVersion() || h.CorrelationID != -7 {
		t.Fatalf("%s v%d: %v %v %+v", name, req.GetVersion(), o, p, h)
	}
	if (h.ClientID == nil) != (client == "") || string(h.ClientID) != client {
		t.Errorf("%s v%d: client id %q", name, req.GetVersion(), h.ClientID)
	}
	if want := req.AppendTo(nil); !bytes.Equal(frame[body:], want) {
		t.Errorf("%s v%d: body at %d is %x, want %x", name, req.GetVersion(), body, frame[body:], want)
	}
	if again := h.Append(nil); !bytes.Equal(again, frame[4:body]) {
		t.Errorf("%s v%d: header again %x, want %x", name, req.GetVersion(), again, frame[4:body])
	}
}
