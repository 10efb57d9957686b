package policy

// Error codes of Kafka that are ours to give.
const (
	codeKafkaStorageError  int16 = 56  // what brokers answer while they cannot persist an acknowledgement; clients try again
	codeInvalidRecordState int16 = 121 // the records are not the client's to acknowledge (any more); clients do not try again
)

// retriable says whether a client may send acknowledgements again when it gets this code for a partition. It is every code that Kafka's Java
// client or franz-go calls retriable, since neither looks at what the code is about.
func retriable(code int16) bool {
	switch code {
	case 2, // CORRUPT_MESSAGE
		3,             // UNKNOWN_TOPIC_OR_PARTITION
		5, 6, 7, 8, 9, // LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, BROKER_ and REPLICA_NOT_AVAILABLE
		13, 14, 15, 16, // NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
		19, 20, // NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND
		41, // NOT_CONTROLLER
		51, // CONCURRENT_TRANSACTIONS
		codeKafkaStorageError,
		70, 71, 72, // FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, LISTENER_NOT_FOUND
		74, 75, 78, // FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE
		80, 83, 84, // PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED
		88, 89, // UNSTABLE_OFFSET_COMMIT, THROTTLING_QUOTA_EXCEEDED
		100, 103, 106, // UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID, FETCH_SESSION_TOPIC_ID_ERROR
		122, 123, 133: // SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED
		return true
	}
	return false
}
