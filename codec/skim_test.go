package codec

import (
	"reflect"
	"testing"
)

// What was learnt from the walks is what the protocol says.
func TestShapes(t *testing.T) {
	offsets := step{kind: fixed, size: 16}
	for name, c := range map[string]struct {
		shape  *shape
		layout layout
		least  int
		steps  []step
	}{
		"int32":     {&int32Shape, 0, 4, []step{{kind: fixed, size: 4}}},
		"AckBatch":  {&ackBatchShape, 0, 18, []step{offsets, {kind: compact}, {kind: tags}}},
		"Listener":  {&listenerShape, 0, 5, []step{{kind: compact}, {kind: compact}, {kind: fixed, size: 2}, {kind: tags}}},
		"AckResult": {&ackResultShape, 0, 17, []step{{kind: fixed, size: 6}, {kind: nullable}, {kind: fixed, size: 8}, {kind: tags}, {kind: tags}}},
		"AckPartition": {&ackPartitionShape, 0, 6,
			[]step{{kind: fixed, size: 4}, {kind: elements, elem: &ackBatchShape}, {kind: tags}}},
		"AckPartition, v0 of ShareFetch": {&ackPartitionShape, hasMaxBytes, 10,
			[]step{{kind: fixed, size: 8}, {kind: elements, elem: &ackBatchShape}, {kind: tags}}},
		"AckResult, leader tagged": {&ackResultShape, leaderTagged, 8, []step{{kind: fixed, size: 6}, {kind: nullable}, {kind: tags}}},
		"AcquiredRecord":           {&acquiredRecordShape, 0, 19, []step{{kind: fixed, size: 18}, {kind: tags}}},
	} {
		got := c.shape[c.layout]
		if got.least != c.least || !reflect.DeepEqual(got.steps, c.steps) {
			t.Errorf("%s: %+v, want %d %+v", name, got, c.least, c.steps)
		}
	}
}

// Passing over elements ends where walking over them does, or leaves it to the walk.
func TestSkim(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		bytes string
		ok    bool
	}{
		"fixed":                     {[]step{{kind: fixed, size: 2}}, "ab", true},
		"fixed, cut":                {[]step{{kind: fixed, size: 2}}, "a", false},
		"bool":                      {[]step{{kind: boolean}}, "\x01", true},
		"bool of 2":                 {[]step{{kind: boolean}}, "\x02", false},
		"no bool":                   {[]step{{kind: boolean}}, "", false},
		"no tags":                   {[]step{{kind: tags}}, "\x00", true},
		"tags":                      {[]step{{kind: tags}}, "\x01\x00\x00", false},
		"string":                    {[]step{{kind: compact}}, "\x02a", true},
		"string, cut":               {[]step{{kind: compact}}, "\x03a", false},
		"string, no length":         {[]step{{kind: compact}}, "", false},
		"string, null":              {[]step{{kind: compact}}, "\x00", false},
		"nullable, null":            {[]step{{kind: nullable}}, "\x00", true},
		"length of two bytes":       {[]step{{kind: compact}}, "\x81\x01" + string(make([]byte, 128)), true},
		"length longer than needed": {[]step{{kind: compact}}, "\x82\x00a", false},
		"length of three bytes":     {[]step{{kind: compact}}, "\x81\x80\x01" + string(make([]byte, 1<<14)), false},
		"length, cut":               {[]step{{kind: compact}}, "\x82", false},
		"array":                     {[]step{{kind: elements, elem: &int32Shape}}, "\x02abcd", true},
		"array, null":               {[]step{{kind: elements, elem: &int32Shape}}, "\x00", false},
		"array, too many":           {[]step{{kind: elements, elem: &int32Shape}}, "\x03abcd", false},
		"array of odd elements":     {[]step{{kind: elements, elem: &listenerShape}}, "\x02\x01\x01ab\x01\x00\x00", false},
	} {
		var s shape
		s[0].steps = c.steps
		end, ok := s.skim([]byte(c.bytes), 0, 1, 0)
		if ok != c.ok || ok && end != len(c.bytes) {
			t.Errorf("%s: %d of %d, %v", name, end, len(c.bytes), ok)
		}
	}
}

// A bool is no fixed byte: only two of its values are plain. No element has one so far.
func TestLearnBool(t *testing.T) {
	var l learner
	l.Field(Field{Type: Int8, Len: 1})
	l.Field(Field{Type: Bool, Len: 1})
	l.Field(Field{Type: Int8, Len: 1})
	want := learner{{kind: fixed, size: 1}, {kind: boolean}, {kind: fixed, size: 1}}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("%+v", l)
	}
}
