package codec

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is one frame of testdata: written ones in vectors.json, captured ones in frames.json.
type golden struct {
	Name          string         `json:"name"`
	API           string         `json:"api"`
	Key           int16          `json:"api_key"`
	Version       int16          `json:"api_version"`
	Kind          string         `json:"kind"`
	HeaderVersion int8           `json:"header_version"`
	FrameBytes    int            `json:"frame_bytes"`
	Hex           string         `json:"hex"`
	Header        map[string]any `json:"header"`
	Fields        map[string]any `json:"fields"`
	Trailing      string         `json:"trailing"`
	Expect        string         `json:"expect"`
	Schema        string         `json:"schema"`
	Reason        string         `json:"reason_seen"`

	frame []byte
}

// goldenFrames are all frames of testdata. An empty list fails the test: it would make every test that runs over it pass.
func goldenFrames(t testing.TB) []golden {
	t.Helper()
	var all []golden
	for name, atLeast := range map[string]int{"vectors.json": 60, "frames.json": 80} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []golden }
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&file); err != nil {
			t.Fatal(name, err)
		}
		if len(file.Vectors) < atLeast {
			t.Fatalf("%s holds %d frames, want at least %d", name, len(file.Vectors), atLeast)
		}
		all = append(all, file.Vectors...)
	}
	for i := range all {
		g := &all[i]
		var err error
		if g.frame, err = hex.DecodeString(g.Hex); err != nil || len(g.frame) != g.FrameBytes {
			t.Fatal(g.Name, len(g.frame), err)
		}
	}
	return all
}

// ours says whether the body is one that this package decodes.
func (g *golden) ours() bool {
	switch g.Schema {
	case "ShareFetch", "ShareAcknowledge", "AddRaftVoter", "TxnShareAcknowledge":
		return true
	}
	return false
}

func (g *golden) query() Query {
	q := Query{APIKey: g.Key, APIVersion: g.Version}
	if g.Kind == "response" {
		q.Kind = Response
	}
	if g.Schema == "TxnShareAcknowledge" {
		q.TxnKey = g.Key
	}
	return q
}

func (g *golden) outcome(t *testing.T) Outcome {
	o, ok := map[string]Outcome{"ok": Exact, "tolerated": Tolerated, "reject": Anomalous}[g.Expect]
	if !ok {
		t.Fatalf("no outcome for expect %q", g.Expect)
	}
	return o
}

func TestGoldenFramesOfOurs(t *testing.T) {
	seen := map[string]int{}
	for _, g := range goldenFrames(t) {
		if !g.ours() {
			continue
		}
		seen[g.Schema+" "+g.Kind+" "+g.Expect]++
		t.Run(g.Name, func(t *testing.T) {
			tr := newTreeTracer(t)
			i := Inspect(g.frame, g.query(), tr)
			if want := g.outcome(t); i.Outcome != want {
				t.Fatalf("outcome %v, want %v: %v", i.Outcome, want, i.Problem)
			}
			if unread := i.Outcome == Anomalous && i.Problem.Field == "Size"; !unread && (i.API != g.API || i.APIKey != g.Key || i.APIVersion != g.Version) {
				t.Errorf("%s, key %d, version %d", i.API, i.APIKey, i.APIVersion)
			}
			checkProblem(t, &g, i)
			if got := hex.EncodeToString(i.Trailing); got != g.Trailing {
				t.Errorf("trailing %q, want %q", got, g.Trailing)
			}
			if i.Outcome == Anomalous {
				return
			}
			tr.done(len(g.frame) - len(i.Trailing))
			if i.Header.Version != g.HeaderVersion {
				t.Errorf("header version %d, want %d", i.Header.Version, g.HeaderVersion)
			}
			wantEqual(t, "header", tr.section("header"), any(g.Header))
			wantEqual(t, "fields", tr.section("fields"), any(g.Fields))
			checkRoundTrip(t, &g, i)
		})
	}
	for _, schema := range []string{"ShareFetch", "ShareAcknowledge", "AddRaftVoter", "TxnShareAcknowledge"} {
		for _, kind := range []string{"request", "response"} {
			if seen[schema+" "+kind+" ok"] == 0 {
				t.Errorf("no good %s %s among the golden frames", schema, kind)
			}
		}
	}
	if seen["ShareAcknowledge request tolerated"] == 0 || seen["ShareAcknowledge request reject"] == 0 {
		t.Error("no tolerated or no rejected frame among the golden frames")
	}
}

func checkProblem(t *testing.T, g *golden, i Inspection) {
	t.Helper()
	if i.Outcome == Exact {
		if i.Problem != nil {
			t.Errorf("an exact frame has a problem: %v", i.Problem)
		}
		return
	}
	p := i.Problem
	if p == nil {
		t.Fatal("no problem")
	}
	want := strings.Replace(g.Reason, "left after body", "left after the body", 1)
	if !strings.Contains(p.Reason, want) {
		t.Errorf("reason %q, want %q in it", p.Reason, want)
	}
	if p.At < 0 || p.At > len(g.frame) {
		t.Errorf("byte %d of %d", p.At, len(g.frame))
	}
}

// checkRoundTrip writes header and body again.
func checkRoundTrip(t *testing.T, g *golden, i Inspection) {
	t.Helper()
	body := g.frame[i.Body:]
	again := reencode(t, g.Schema+" "+g.Kind, body, g.Version)
	if i.Outcome == Exact && !bytes.Equal(again, body) {
		t.Errorf("body again:\n got %x\nwant %x", again, body)
	}
	if i.Outcome == Tolerated && bytes.Equal(again, body) {
		t.Error("a tolerated body came out as it was")
	}
	header := i.Header.Append(nil)
	if g.Kind == "response" {
		header = (&ResponseHeader{CorrelationID: i.Header.CorrelationID, Tags: i.Header.Tags, Version: i.Header.Version}).Append(nil)
	}
	if want := g.frame[4:i.Body]; !bytes.Equal(header, want) {
		t.Errorf("header again:\n got %x\nwant %x", header, want)
	}
}

func reencode(t *testing.T, what string, body []byte, version int16) []byte {
	t.Helper()
	type coder interface {
		Decode([]byte, int, int16) (Outcome, *Problem)
		Append([]byte, int16) []byte
	}
	m, ok := map[string]coder{
		"ShareFetch request":           &ShareFetchRequest{},
		"ShareFetch response":          &ShareFetchResponse{},
		"ShareAcknowledge request":     &ShareAcknowledgeRequest{},
		"ShareAcknowledge response":    &ShareAcknowledgeResponse{},
		"AddRaftVoter request":         &AddRaftVoterRequest{},
		"AddRaftVoter response":        &AddRaftVoterResponse{},
		"TxnShareAcknowledge request":  &TxnShareAcknowledgeRequest{},
		"TxnShareAcknowledge response": &TxnShareAcknowledgeResponse{},
	}[what]
	if !ok {
		t.Fatal("no message for", what)
	}
	if o, p := m.Decode(body, 0, version); o > Tolerated {
		t.Fatal(o, p)
	}
	return m.Append(nil, version)
}

// All other frames go through framing and header, and no further.
func TestGoldenFramesOfOthers(t *testing.T) {
	others := 0
	for _, g := range goldenFrames(t) {
		if g.ours() || g.Schema == "TxnShareAcknowledge-genA" {
			continue
		}
		others++
		t.Run(g.Name, func(t *testing.T) {
			tr := newTreeTracer(t)
			i := Inspect(g.frame, g.query(), tr)
			if i.Outcome != Opaque || i.Problem != nil {
				t.Fatalf("%v: %v", i.Outcome, i.Problem)
			}
			if i.API != g.API || i.Header.Version != g.HeaderVersion {
				t.Errorf("%s, header version %d, want %s and %d", i.API, i.Header.Version, g.API, g.HeaderVersion)
			}
			tr.done(i.Body)
			if g.Header != nil {
				wantEqual(t, "header", tr.section("header"), any(g.Header))
			}
		})
	}
	if others < 40 {
		t.Fatalf("only %d frames of other APIs", others)
	}
}
