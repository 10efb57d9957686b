// Package codec reads and writes the frames of the Kafka protocol that concern share groups (KIP-932): headers of every API, and the
// messages ShareFetch, ShareAcknowledge, AddRaftVoter and the proposed TxnShareAcknowledge (KIP-1289), requests and responses. It
// stands on the standard library alone.
//
// # Four outcomes
//
// A proxy that looks at acknowledgements must see in a frame what the broker will see, or acknowledgements slip past it. Brokers are
// laxer than a strict decoder: they apply a request with bytes left over behind its body, with tagged fields out of order or repeated,
// with lengths written longer than needed, with a bool of 2. So every Decode ends in one of four outcomes:
//
//	Exact      nothing is left over, and Append gives the same bytes
//	Tolerated  a broker serves it: the message says what the broker reads, the Problem what is odd about the bytes
//	Anomalous  a broker closes the connection: the message is empty, the Problem says where and why
//	Opaque     a key or version that is not ours to decode
//
// Append always writes the canonical form. What it makes of a Tolerated message is Exact and says the same.
//
// # Views
//
// Decode checks the whole body and allocates nothing. Strings and records are slices of the frame. An Array is the bytes of its
// elements, which are read again when it is iterated; so a range of offsets 0 to 2^63-2 costs a batch, a million batches cost their
// bytes, and the frame bounds all memory whatever its counts claim. Views live as long as the frame's bytes are left alone. To edit
// a message, build new arrays with Append and give them to it; tags that nobody knows stay where they are.
//
// # One walk
//
// Each struct has one method walk, which names its fields in the order of the wire, with versions as plain conditions. The same walk
// reads, appends and traces: a walker decides which (see walker). Decode walks twice at most: strictly and fast, and only where that
// stops once more, with care for names and places. What elements look like to those that pass over them (shape) is learnt from their
// walks when the program starts, so that nothing is written down twice.
//
// # Adding a message
//
//  1. A file of its own with the struct, its highest version, Decode, Append and walk. A field of an array's element that not all
//     versions or carriers have becomes a bit of layout, since elements remember no more than that.
//  2. The message into the constraint message and the switch of walkMessage; its elements into element, walkAll and the shapes.
//  3. Its key into Inspection.schema.
//  4. Golden frames into testdata, a fuzz test with its counter method, and where kmsg has it a line in TestAgainstKmsg.
package codec
