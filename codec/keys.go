package codec

// The API keys that Kafka has assigned, 0 to 94 (Kafka 4.4). TxnShareAcknowledge (KIP-1289) has none yet: its key is configured,
// and functions that need it take it as a parameter.
const (
	KeyProduce int16 = iota
	KeyFetch
	KeyListOffsets
	KeyMetadata
	KeyLeaderAndISR
	KeyStopReplica
	KeyUpdateMetadata
	KeyControlledShutdown
	KeyOffsetCommit
	KeyOffsetFetch
	KeyFindCoordinator
	KeyJoinGroup
	KeyHeartbeat
	KeyLeaveGroup
	KeySyncGroup
	KeyDescribeGroups
	KeyListGroups
	KeySASLHandshake
	KeyApiVersions
	KeyCreateTopics
	KeyDeleteTopics
	KeyDeleteRecords
	KeyInitProducerID
	KeyOffsetForLeaderEpoch
	KeyAddPartitionsToTxn
	KeyAddOffsetsToTxn
	KeyEndTxn
	KeyWriteTxnMarkers
	KeyTxnOffsetCommit
	KeyDescribeACLs
	KeyCreateACLs
	KeyDeleteACLs
	KeyDescribeConfigs
	KeyAlterConfigs
	KeyAlterReplicaLogDirs
	KeyDescribeLogDirs
	KeySASLAuthenticate
	KeyCreatePartitions
	KeyCreateDelegationToken
	KeyRenewDelegationToken
	KeyExpireDelegationToken
	KeyDescribeDelegationToken
	KeyDeleteGroups
	KeyElectLeaders
	KeyIncrementalAlterConfigs
	KeyAlterPartitionReassignments
	KeyListPartitionReassignments
	KeyOffsetDelete
	KeyDescribeClientQuotas
	KeyAlterClientQuotas
	KeyDescribeUserSCRAMCredentials
	KeyAlterUserSCRAMCredentials
	KeyVote
	KeyBeginQuorumEpoch
	KeyEndQuorumEpoch
	KeyDescribeQuorum
	KeyAlterPartition
	KeyUpdateFeatures
	KeyEnvelope
	KeyFetchSnapshot
	KeyDescribeCluster
	KeyDescribeProducers
	KeyBrokerRegistration
	KeyBrokerHeartbeat
	KeyUnregisterBroker
	KeyDescribeTransactions
	KeyListTransactions
	KeyAllocateProducerIDs
	KeyConsumerGroupHeartbeat
	KeyConsumerGroupDescribe
	KeyControllerRegistration
	KeyGetTelemetrySubscriptions
	KeyPushTelemetry
	KeyAssignReplicasToDirs
	KeyListConfigResources
	KeyDescribeTopicPartitions
	KeyShareGroupHeartbeat
	KeyShareGroupDescribe
	KeyShareFetch
	KeyShareAcknowledge
	KeyAddRaftVoter
	KeyRemoveRaftVoter
	KeyUpdateRaftVoter
	KeyInitializeShareGroupState
	KeyReadShareGroupState
	KeyWriteShareGroupState
	KeyDeleteShareGroupState
	KeyReadShareGroupStateSummary
	KeyStreamsGroupHeartbeat
	KeyStreamsGroupDescribe
	KeyDescribeShareGroupOffsets
	KeyAlterShareGroupOffsets
	KeyDeleteShareGroupOffsets
	KeyStreamsGroupTopologyDescriptionUpdate
	KeyUnregisterController
)

// nameTxnShareAcknowledge is the API name of the message whose key is configured.
const nameTxnShareAcknowledge = "TxnShareAcknowledge"

// neverFlexible marks an API that has no flexible version.
const neverFlexible = -1

// api is one row of the table of keys.
type api struct {
	name     string
	max      int16 // highest version that is known to exist
	flexible int16 // first version with compact types and tagged fields, or neverFlexible
}

// apis is indexed by key.
var apis = [...]api{
	KeyProduce:                               {"Produce", 13, 9},
	KeyFetch:                                 {"Fetch", 18, 12},
	KeyListOffsets:                           {"ListOffsets", 11, 6},
	KeyMetadata:                              {"Metadata", 13, 9},
	KeyLeaderAndISR:                          {"LeaderAndIsr", 7, 4},
	KeyStopReplica:                           {"StopReplica", 4, 2},
	KeyUpdateMetadata:                        {"UpdateMetadata", 8, 6},
	KeyControlledShutdown:                    {"ControlledShutdown", 3, 3},
	KeyOffsetCommit:                          {"OffsetCommit", 10, 8},
	KeyOffsetFetch:                           {"OffsetFetch", 10, 6},
	KeyFindCoordinator:                       {"FindCoordinator", 6, 3},
	KeyJoinGroup:                             {"JoinGroup", 9, 6},
	KeyHeartbeat:                             {"Heartbeat", 4, 4},
	KeyLeaveGroup:                            {"LeaveGroup", 5, 4},
	KeySyncGroup:                             {"SyncGroup", 5, 4},
	KeyDescribeGroups:                        {"DescribeGroups", 6, 5},
	KeyListGroups:                            {"ListGroups", 5, 3},
	KeySASLHandshake:                         {"SaslHandshake", 1, neverFlexible},
	KeyApiVersions:                           {"ApiVersions", 5, 3},
	KeyCreateTopics:                          {"CreateTopics", 7, 5},
	KeyDeleteTopics:                          {"DeleteTopics", 6, 4},
	KeyDeleteRecords:                         {"DeleteRecords", 2, 2},
	KeyInitProducerID:                        {"InitProducerId", 5, 2},
	KeyOffsetForLeaderEpoch:                  {"OffsetForLeaderEpoch", 4, 4},
	KeyAddPartitionsToTxn:                    {"AddPartitionsToTxn", 5, 3},
	KeyAddOffsetsToTxn:                       {"AddOffsetsToTxn", 4, 3},
	KeyEndTxn:                                {"EndTxn", 5, 3},
	KeyWriteTxnMarkers:                       {"WriteTxnMarkers", 2, 1},
	KeyTxnOffsetCommit:                       {"TxnOffsetCommit", 6, 3},
	KeyDescribeACLs:                          {"DescribeAcls", 3, 2},
	KeyCreateACLs:                            {"CreateAcls", 3, 2},
	KeyDeleteACLs:                            {"DeleteAcls", 3, 2},
	KeyDescribeConfigs:                       {"DescribeConfigs", 4, 4},
	KeyAlterConfigs:                          {"AlterConfigs", 2, 2},
	KeyAlterReplicaLogDirs:                   {"AlterReplicaLogDirs", 2, 2},
	KeyDescribeLogDirs:                       {"DescribeLogDirs", 5, 2},
	KeySASLAuthenticate:                      {"SaslAuthenticate", 2, 2},
	KeyCreatePartitions:                      {"CreatePartitions", 3, 2},
	KeyCreateDelegationToken:                 {"CreateDelegationToken", 3, 2},
	KeyRenewDelegationToken:                  {"RenewDelegationToken", 2, 2},
	KeyExpireDelegationToken:                 {"ExpireDelegationToken", 2, 2},
	KeyDescribeDelegationToken:               {"DescribeDelegationToken", 3, 2},
	KeyDeleteGroups:                          {"DeleteGroups", 3, 2},
	KeyElectLeaders:                          {"ElectLeaders", 2, 2},
	KeyIncrementalAlterConfigs:               {"IncrementalAlterConfigs", 1, 1},
	KeyAlterPartitionReassignments:           {"AlterPartitionReassignments", 1, 0},
	KeyListPartitionReassignments:            {"ListPartitionReassignments", 0, 0},
	KeyOffsetDelete:                          {"OffsetDelete", 0, neverFlexible},
	KeyDescribeClientQuotas:                  {"DescribeClientQuotas", 1, 1},
	KeyAlterClientQuotas:                     {"AlterClientQuotas", 1, 1},
	KeyDescribeUserSCRAMCredentials:          {"DescribeUserScramCredentials", 0, 0},
	KeyAlterUserSCRAMCredentials:             {"AlterUserScramCredentials", 0, 0},
	KeyVote:                                  {"Vote", 2, 0},
	KeyBeginQuorumEpoch:                      {"BeginQuorumEpoch", 1, 1},
	KeyEndQuorumEpoch:                        {"EndQuorumEpoch", 1, 1},
	KeyDescribeQuorum:                        {"DescribeQuorum", 2, 0},
	KeyAlterPartition:                        {"AlterPartition", 3, 0},
	KeyUpdateFeatures:                        {"UpdateFeatures", 2, 0},
	KeyEnvelope:                              {"Envelope", 0, 0},
	KeyFetchSnapshot:                         {"FetchSnapshot", 1, 0},
	KeyDescribeCluster:                       {"DescribeCluster", 2, 0},
	KeyDescribeProducers:                     {"DescribeProducers", 0, 0},
	KeyBrokerRegistration:                    {"BrokerRegistration", 4, 0},
	KeyBrokerHeartbeat:                       {"BrokerHeartbeat", 2, 0},
	KeyUnregisterBroker:                      {"UnregisterBroker", 0, 0},
	KeyDescribeTransactions:                  {"DescribeTransactions", 0, 0},
	KeyListTransactions:                      {"ListTransactions", 2, 0},
	KeyAllocateProducerIDs:                   {"AllocateProducerIds", 0, 0},
	KeyConsumerGroupHeartbeat:                {"ConsumerGroupHeartbeat", 1, 0},
	KeyConsumerGroupDescribe:                 {"ConsumerGroupDescribe", 1, 0},
	KeyControllerRegistration:                {"ControllerRegistration", 0, 0},
	KeyGetTelemetrySubscriptions:             {"GetTelemetrySubscriptions", 0, 0},
	KeyPushTelemetry:                         {"PushTelemetry", 0, 0},
	KeyAssignReplicasToDirs:                  {"AssignReplicasToDirs", 0, 0},
	KeyListConfigResources:                   {"ListConfigResources", 1, 0},
	KeyDescribeTopicPartitions:               {"DescribeTopicPartitions", 0, 0},
	KeyShareGroupHeartbeat:                   {"ShareGroupHeartbeat", 1, 0},
	KeyShareGroupDescribe:                    {"ShareGroupDescribe", 1, 0},
	KeyShareFetch:                            {"ShareFetch", 2, 0},
	KeyShareAcknowledge:                      {"ShareAcknowledge", 2, 0},
	KeyAddRaftVoter:                          {"AddRaftVoter", 1, 0},
	KeyRemoveRaftVoter:                       {"RemoveRaftVoter", 0, 0},
	KeyUpdateRaftVoter:                       {"UpdateRaftVoter", 0, 0},
	KeyInitializeShareGroupState:             {"InitializeShareGroupState", 0, 0},
	KeyReadShareGroupState:                   {"ReadShareGroupState", 0, 0},
	KeyWriteShareGroupState:                  {"WriteShareGroupState", 1, 0},
	KeyDeleteShareGroupState:                 {"DeleteShareGroupState", 0, 0},
	KeyReadShareGroupStateSummary:            {"ReadShareGroupStateSummary", 1, 0},
	KeyStreamsGroupHeartbeat:                 {"StreamsGroupHeartbeat", 1, 0},
	KeyStreamsGroupDescribe:                  {"StreamsGroupDescribe", 1, 0},
	KeyDescribeShareGroupOffsets:             {"DescribeShareGroupOffsets", 1, 0},
	KeyAlterShareGroupOffsets:                {"AlterShareGroupOffsets", 0, 0},
	KeyDeleteShareGroupOffsets:               {"DeleteShareGroupOffsets", 0, 0},
	KeyStreamsGroupTopologyDescriptionUpdate: {"StreamsGroupTopologyDescriptionUpdate", 0, 0},
	KeyUnregisterController:                  {"UnregisterController", 0, 0},
}

// Known says whether key is one that Kafka has assigned, so that the layout of its headers is known.
func Known(key int16) bool { return key >= 0 && int(key) < len(apis) }

// Name is Kafka's name for an API key, "ShareAcknowledge"; empty when the key is not Known.
func Name(key int16) string {
	if !Known(key) {
		return ""
	}
	return apis[key].name
}

// MaxVersion is the highest version of a key that is known to exist; -1 when the key is not Known.
func MaxVersion(key int16) int16 {
	if !Known(key) {
		return -1
	}
	return apis[key].max
}

// flexible says whether requests of this key and version have tagged fields in their header.
func flexible(key, version int16) bool {
	first := apis[key].flexible
	return first != neverFlexible && version >= first
}

// RequestHeaderVersion is the version of the header that requests of this key and version carry: 2 where they are flexible, else 1
// (0 for ControlledShutdown v0, which brokers dropped with 4.0). It is false when the key is not Known or the version is negative.
func RequestHeaderVersion(key, version int16) (int8, bool) {
	switch {
	case !Known(key) || version < 0:
		return 0, false
	case flexible(key, version):
		return 2, true
	case key == KeyControlledShutdown && version == 0:
		return 0, true
	}
	return 1, true
}

// ResponseHeaderVersion is the version of the header that answers to this key and version carry: 1 where they are flexible, else 0,
// and always 0 for ApiVersions. It is false when the key is not Known or the version is negative.
func ResponseHeaderVersion(key, version int16) (int8, bool) {
	switch {
	case !Known(key) || version < 0:
		return 0, false
	case key != KeyApiVersions && flexible(key, version):
		return 1, true
	}
	return 0, true
}
