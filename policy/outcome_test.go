package policy

import "testing"

func TestOutcomeIsUsedAgainOnceAllLetGo(t *testing.T) {
	for range 100 { // the pool may drop what it is given
		o := NewOutcome(Undecodable, []byte("frame"))
		o.Note, o.Request.Software = "note", "software"
		o.Reply.Partitions = append(o.Reply.Partitions, PartitionResult{Partition: 7, ErrorMessage: "message"})
		o.Retain()
		o.Release()
		if string(o.Request.Frame) != "frame" || o.Note != "note" {
			t.Fatal("changed while it was held")
		}
		o.Release()
		again := NewOutcome(Acknowledgement, nil)
		if again.Note != "" || again.Request.Software != "" || len(again.Reply.Partitions) != 0 || len(again.Request.Frame) != 0 {
			t.Fatalf("not empty: %+v", again)
		}
		if cap(again.Reply.Partitions) > 0 && again.Reply.Partitions[:1][0] != (PartitionResult{}) {
			t.Fatal("a released outcome holds on to a message")
		}
		again.Release()
	}
}

func TestOutcomeDoesNotKeepLargeFrames(t *testing.T) {
	for range 100 {
		NewOutcome(Undecodable, make([]byte, keepFrame+1)).Release()
		if o := NewOutcome(Undecodable, nil); cap(o.Request.Frame) > keepFrame {
			t.Fatalf("%d bytes", cap(o.Request.Frame))
		}
	}
}

func TestReleaseOfAnOutcomeMadeByHand(t *testing.T) {
	o := &Outcome{Note: "note"}
	o.Retain()
	o.Release()
	o.Release()
	if o.Note != "note" {
		t.Fatal("taken into the pool")
	}
}
