package codec

import "fmt"

// Outcome says what a broker makes of a frame, and so what is known about it.
type Outcome uint8

// The outcomes, from the best to the least that can be said.
const (
	Exact     Outcome = iota // nothing left over, and Append gives the same bytes
	Tolerated                // a broker serves it as it was decoded, although its bytes are not the ones that Append gives
	Anomalous                // a broker closes the connection
	Opaque                   // a key or version that is not ours to decode
)

// String is the outcome's name in audit lines and in the output of decode.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

var outcomes = [...]string{"exact", "tolerated", "anomalous", "opaque"}

// Problem is why a frame is Anomalous, or the first reason why it is Tolerated.
type Problem struct {
	Reason string // a short sentence: "short read: 16 bytes wanted, 3 left"
	At     int    // the byte it was found at, counted from the frame's first: the size prefix is bytes 0 to 3
	Field  string // Kafka's names: "Topics[0].Partitions[1].PartitionIndex"; empty when no field is concerned
}

// Error puts reason, place and field into one line.
func (p *Problem) Error() string {
	if p.Field == "" {
		return fmt.Sprintf("%s at byte %d", p.Reason, p.At)
	}
	return fmt.Sprintf("%s at byte %d (%s)", p.Reason, p.At, p.Field)
}
