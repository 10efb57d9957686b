// Package demo shows the proxy at work without a Kafka cluster: brokers in this process, the proxy in front of them with its audit on, a
// producer, and members of a share group that accept, release and reject. What the members did is compared with what the audit says, record
// by record.
//
// The walk: stage.go starts what stands still (brokers, proxy, audit), play.go what moves (producer and members) and decides when it is
// over. Each member tells the tally of every acknowledgement it makes, and the audit's lines are read into the same tally, which keeps
// the difference. All connections of all clients go through a lookout, which reports any address of a broker that reaches a client. The
// screen draws the tally while it grows.
//
// What a member does with a record follows from the seed, the record's place and its delivery count alone, so that one seed makes the same
// acknowledgements whichever member gets the record and whenever.
package demo
