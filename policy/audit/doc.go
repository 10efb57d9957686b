// Package audit is the built-in observer: it turns exchanges that concern acknowledgements into an audit log, one JSON object a line,
// and into Prometheus metrics.
//
// # What a line says
//
// A client asks a broker to accept, release, reject or renew ranges of records (KIP-932, KIP-1222), on ShareFetch, ShareAcknowledge or
// TxnShareAcknowledge. For each such request and each partition it acknowledges there is one "share.ack" event: who asked, about what, on
// which carrier, when, and what the broker said. The protocol's verdicts are per partition, and for a whole request where its top-level code is not
// zero; an event says which (verdict.scope). "accepted" means that the broker did not refuse, no more. A verdict that was not seen is
// "unknown" and says why. Nothing here claims that an application decided anything (ack.mode is "not_observable"): clients acknowledge
// implicitly, and the wire does not show it.
//
// Further events: "share.session", a session closed without an acknowledgement in the request; "share.undecodable", a frame of an
// acknowledging key that no broker would serve, by its SHA-256; "admin.request", AddRaftVoter; "audit.control", the log about itself: start,
// stop, connections that could not be read ("coverage"), and what was lost ("gap").
//
// Where policies edited what a partition asks, what they let pass and what they withheld are two events. The first has what was asked and what
// was forwarded, with the broker's verdict; the second, "not_sent", has what the client was told and by whom. An error that a policy put
// into an answer never stands as the broker's. The list policy says who did what, also to the request as a whole; a partition that
// policies left alone has the line that it has without policies.
//
// Offsets are JSON numbers, and strings where a number would lose digits (beyond 2^53 either way). Ranges stay ranges: 0 to 2^63-2 costs as much
// as one offset; only a type array with an entry per offset is walked, and written as runs of one type. A batch that breaks the array rule
// (first above last, no types, a wrong number of them) is shown as asked and counts no records. Where a request names a partition twice, Kafka
// applies the last entry only, also one that has no batches: the ranges of the others are marked "superseded" and not counted.
//
// No line is longer than 8 KiB: more ranges make more parts (stream.part of stream.parts, same id, records counted per part; what a part says
// was asked, forwarded and edited are the same ranges). A text of more than 384 bytes, of a policy's 192, is cut and says by how much
// ("…(+120 bytes)"). Bytes that are not UTF-8 become U+FFFD.
//
// # How it gets written
//
// Observe queues an outcome and returns. The queue is bounded in bytes; one goroutine drains it, formats into a reused buffer and writes
// whole lines to every sink, many in one write under load. stream.seq numbers the lines of this process without holes. When the queue is full
// outcomes are dropped, and as soon as there is room a gap event with exact counts takes their place in the sequence. The same is
// done for a sink that fails: it is retried, lines wait in a bounded buffer, a line cut off inside by a full disk is completed first, and
// what could not be kept is a gap event that names the sink. A sink that blocks holds up the other sinks of its Auditor, never a
// connection.
//
// Events in are events written, plus dropped, plus queued. With no sink nothing is formatted and the metrics still count.
package audit
