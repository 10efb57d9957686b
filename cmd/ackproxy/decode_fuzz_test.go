package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Whatever the input, every byte of it is in one object, and every object is JSON.
func FuzzDecode(f *testing.F) {
	all := golden(f)
	if len(all) == 0 {
		f.Fatal("no seeds")
	}
	for _, v := range all {
		f.Add(v.bytes(f), v.Kind == "response", v.APIKey, v.APIVersion)
	}
	f.Fuzz(func(t *testing.T, in []byte, response bool, key, version int16) {
		o := decodeOptions{response: response, apiKey: key, apiVersion: version, txnKey: 95, payloads: true, format: formatJSON}
		var out bytes.Buffer
		sum := decodeAll(t, &o, in, &out)
		if sum != len(in) {
			t.Fatalf("%d of %d bytes in %s", sum, len(in), out.String())
		}
		o.format = formatText
		out.Reset()
		decodeAll(t, &o, in, &out)
		if len(in) > 0 && !strings.HasPrefix(out.String(), "#1 ") {
			t.Fatal(out.String())
		}
	})
}

// decodeAll decodes frames as decode does, without guessing a text form, and adds their bytes up.
func decodeAll(t *testing.T, o *decodeOptions, in []byte, out *bytes.Buffer) (sum int) {
	t.Helper()
	d := newDecoder(o, out)
	if err := d.frames(in); err != nil {
		t.Fatal(err)
	}
	d.out.Flush()
	for line := range strings.Lines(out.String()) {
		var shown struct {
			FrameBytes int `json:"frame_bytes"`
		}
		if o.format != formatJSON {
			continue
		}
		if err := json.Unmarshal([]byte(line), &shown); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		sum += shown.FrameBytes
	}
	return sum
}
