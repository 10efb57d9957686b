// Package codec reads and writes the frames of the Kafka protocol that concern share groups.
package codec
