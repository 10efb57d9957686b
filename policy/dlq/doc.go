// Package dlq is the dead-letter policy: it writes a record to a dead-letter topic before its Reject goes to the broker, and, where that does not
// work in time, does what the configuration says. No Reject is forwarded without its record, unless the configuration says so.
//
// # A request's way
//
//	Decide ─ collect: which offsets? ─ groups: limit, lock, the broker's own queue ─ breakers
//	       ─ deliver: for each offset  payload (as it passed by, else fetched again, else none)
//	                                   address (rules, template, headers)
//	                                   produce, acks=all; all are awaited, up to the budget
//	       ─ save: what was not produced goes to the spool, synchronised to disk
//	       ─ verdict: release, withhold, forward or close for the rest
//
// The budget is the configured one, or a quarter of the shortest lock left where that is less, and all takes half of the lock at most: what the client
// accepts in the same request, and all that it sends after, waits as well. A record that is gone without its letter does not heed the lock (times).
//
// # At least once
//
// A letter may be written twice: when the answer to it is lost, when the broker refuses the Reject, when the process ends between two steps. All
// copies have the same id (the header ackproxy.dlq.id). A letter whose outcome is not known by the deadline goes to the spool, and is written again.
//
// # Files
//
//	config*.go fields.go cluster.go online.go   the configuration, and whether it can work
//	policy.go collect.go work.go settle.go      one request
//	staging.go transactions.go                  requests in transactions, whose letters wait for the commit
//	payload.go source.go                        records that did not pass by
//	route.go sender.go client.go room.go        where letters go, how, and in how much memory
//	spooling.go drain.go                        the spool and its emptying
//	groups.go standdown.go breaker.go           what is known of groups
//	last.go observe.go reasons.go metrics.go    what others say: brokers, applications; and what is told
//
// Package letter has the form of dead letters, package spool the files.
package dlq
