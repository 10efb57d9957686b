// Package redrive reads dead-letter topics: it counts what is in one, and produces letters back to where they came from, or elsewhere.
//
// A redrive writes the records and its own position in the dead-letter topic in one Kafka transaction. So each letter is back once, however
// often the redrive is interrupted, for consumers that read committed records only. That holds within one cluster: a transaction does not
// span two.
package redrive
