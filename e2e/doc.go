// Package e2e holds the end-to-end tests: real Apache Kafka brokers, real share clients, and ackproxy as a program in between. README.md
// says what each proves and how to run one.
package e2e
