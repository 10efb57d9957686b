package golden

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

// The requests are those that the codec is tested with, and there are some of each kind.
func TestRequests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "codec", "testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Vectors []struct{ Name, Hex string } }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, v := range all.Vectors {
		want[v.Name] = v.Hex
	}
	kinds := map[string]int{}
	for _, r := range Requests() {
		if hex.EncodeToString(r.Request.Frame) != want[r.Name] {
			t.Errorf("%s is %x, want %s", r.Name, r.Request.Frame, want[r.Name])
		}
		asked, err := policy.Asked(r.Request)
		if err != nil {
			t.Error(err)
		}
		kinds[r.Request.Carrier.String()]++
		kinds[r.Request.Decode.String()]++
		for _, p := range asked {
			if p.Malformed {
				kinds["malformed"]++
			}
			for _, x := range p.Pieces {
				if x.Asked == policy.Reject {
					kinds["reject"]++
				}
			}
		}
		if r.Request.ClosesSession() {
			kinds["close"]++
		}
		if r.Request.RenewAck {
			kinds["renew"]++
		}
	}
	for _, kind := range []string{"share_fetch", "share_acknowledge", "exact", "tolerated", "malformed", "reject", "close", "renew"} {
		if kinds[kind] == 0 {
			t.Errorf("no request is %s: %v", kind, kinds)
		}
	}
}
