package codec

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The table of keys says what kmsg's generated code says.
func TestKeysAgainstKmsg(t *testing.T) {
	if kmsg.MaxKey != int16(len(apis)-1) {
		t.Errorf("the table ends at %d, kmsg at %d", len(apis)-1, kmsg.MaxKey)
	}
	for key := range int16(len(apis)) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			t.Fatal("kmsg has no key", key)
		}
		if name := kmsg.NameForKey(key); !strings.EqualFold(Name(key), name) && key != KeyAlterPartitionReassignments {
			t.Errorf("key %d is %s, %s to kmsg", key, Name(key), name)
		}
		if MaxVersion(key) != req.MaxVersion() {
			t.Errorf("%s: highest version %d, %d to kmsg", Name(key), MaxVersion(key), req.MaxVersion())
		}
		for version := range req.MaxVersion() + 1 {
			req.SetVersion(version)
			checkHeaderVersions(t, key, version, req.IsFlexible())
		}
	}
}

func checkHeaderVersions(t *testing.T, key, version int16, flexible bool) {
	request, response := int8(1), int8(0)
	if flexible {
		request, response = 2, 1
	}
	switch {
	case key == KeyControlledShutdown && version == 0:
		request = 0
	case key == KeyApiVersions:
		response = 0
	}
	if v, ok := RequestHeaderVersion(key, version); !ok || v != request {
		t.Errorf("%s v%d: request header %d, want %d", Name(key), version, v, request)
	}
	if v, ok := ResponseHeaderVersion(key, version); !ok || v != response {
		t.Errorf("%s v%d: response header %d, want %d", Name(key), version, v, response)
	}
}

func TestKeys(t *testing.T) {
	for key, name := range map[int16]string{
		KeyProduce: "Produce", KeyFetch: "Fetch", KeyApiVersions: "ApiVersions", KeySASLHandshake: "SaslHandshake",
		KeyShareFetch: "ShareFetch", KeyShareAcknowledge: "ShareAcknowledge", KeyAddRaftVoter: "AddRaftVoter",
		KeyUnregisterController: "UnregisterController",
	} {
		if Name(key) != name || !Known(key) {
			t.Errorf("key %d is %q", key, Name(key))
		}
	}
	if KeyShareFetch != 78 || KeyShareAcknowledge != 79 || KeyAddRaftVoter != 80 || KeyUnregisterController != 94 {
		t.Error("the constants have moved")
	}
	for _, key := range []int16{-1, 95, 32767, -32768} {
		_, request := RequestHeaderVersion(key, 0)
		_, response := ResponseHeaderVersion(key, 0)
		if Known(key) || Name(key) != "" || MaxVersion(key) != -1 || request || response {
			t.Errorf("key %d is known", key)
		}
	}
	if _, ok := RequestHeaderVersion(KeyShareFetch, -1); ok {
		t.Error("a negative version has a header")
	}
	if v, ok := RequestHeaderVersion(KeyApiVersions, 99); !ok || v != 2 {
		t.Error("ApiVersions of an unknown version has header", v)
	}
}

// The package stands on the standard library alone.
func TestImports(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			first, _, _ := strings.Cut(path, "/")
			if err != nil || strings.Contains(first, ".") || slices.Contains([]string{"C", "unsafe"}, first) {
				t.Errorf("%s imports %s", e.Name(), i.Path.Value)
			}
		}
	}
	if files < 10 {
		t.Fatalf("only %d files were looked at", files)
	}
}

func TestTexts(t *testing.T) {
	u := UUID{0x55, 0x0e, 0x84, 0x00, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0x00, 0x00}
	for got, want := range map[string]string{
		u.String():             "VQ6EAOKbQdSnFkRmVUQAAA",
		u.Text36():             "550e8400-e29b-41d4-a716-446655440000",
		Exact.String():         "exact",
		Tolerated.String():     "tolerated",
		Anomalous.String():     "anomalous",
		Opaque.String():        "opaque",
		Outcome(9).String():    "outcome(9)",
		Request.String():       "request",
		Response.String():      "response",
		CompactString.String(): "compact string",
		(&Problem{Reason: "r", At: 4, Field: "F"}).Error(): "r at byte 4 (F)",
		(&Problem{Reason: "r", At: 4}).Error():             "r at byte 4",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for ty := Bool; ty <= TagHeader; ty++ {
		if ty.String() == "" {
			t.Errorf("type %d has no name", ty)
		}
	}
}
