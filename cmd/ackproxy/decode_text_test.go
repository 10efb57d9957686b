package main

import (
	"fmt"
	"strings"
	"testing"
)

// The tree names what the bytes mean.
func TestText(t *testing.T) {
	all := golden(t)
	for name, lines := range map[string][]string{
		"share_ack_req_v1_reject_range": {
			"#1 request ShareAcknowledge v1 (key 79), 133 bytes at 0: exact",
			"0x0000    4B Size int32 = 129",
			"0x0004       request header v2",
			"0x0004    2B   RequestApiKey int16 = 79  ShareAcknowledge",
			`0x000c   17B   ClientId nullable string = "orders-worker-1"`,
			"0x0059   16B       TopicId uuid = 550e8400-e29b-41d4-a716-446655440000  Kafka writes it VQ6EAOKbQdSnFkRmVUQAAA",
			"0x006f                   AcknowledgementBatches[0]  reject 150382 to 150391",
			"0x007f    2B               AcknowledgeTypes []int8 = [3 reject]",
			"0x0084    1B   _tags tag section = no fields",
		},
		"share_ack_req_v1_close_empty":         {"ShareSessionEpoch int32 = -1  closes the share session", "Topics [] = no elements  nothing is acknowledged"},
		"share_fetch_req_v2_record_limit_open": {"ShareSessionEpoch int32 = 0  opens a share session", "ShareAcquireMode int8 = 1  record-limit", "MaxBytes int32 = 2147483647  no limit"},
		"share_fetch_req_v2_renew_only":        {"IsRenewAck bool = true  acknowledgements may renew locks", "[4 renew]"},
		"share_ack_req_v2_inverted":            {"brokers refuse it: first above last"},
		"share_ack_req_v2_empty_types":         {"brokers refuse it: no types"},
		"share_ack_req_v2_size_mismatch":       {"brokers refuse it: "},
		"share_ack_req_v2_type_5":              {"5 other(5)"},
		"share_ack_req_v1_nulls":               {"GroupId compact nullable string = null"},
		"share_ack_req_v2_unknown_tags":        {"_tags tag 127 = ff", "_tags tag 9 = cafe"},
		"share_ack_resp_v1_session_error":      {"SHARE_SESSION"},
		"share_fetch_resp_v1_records": {
			"AcknowledgeErrorCode int16 = 121  INVALID_RECORD_STATE", "ErrorCode int16 = 0  NONE", "LeaderId int32 = -1  not known",
			"Records compact nullable bytes = 152 bytes", "AcquisitionLockTimeoutMs int32 = 30000  30s", "DeliveryCount int16 = 2",
		},
		"share_ack_resp_v0_seed_65":               {"CurrentLeader  0/0 is no hint, unless the error is 6 or 74"},
		"txn_share_ack_resp_v0_not_leader_tagged": {"_tags tag header = tag 0", "ErrorCode int16 = 6  NOT_LEADER_OR_FOLLOWER"},
		"tolerated_uvarint_non_minimal":           {">> 0x001e  TOLERATED at byte 30: "},
		"bad_trailing_byte":                       {"0x0085    1B trailing = 00, which a broker ignores", ">> 0x0085  TOLERATED at byte 133: "},
		"bad_truncated_body":                      {"AcknowledgeTypes []int8 = [3 reject]", ">> 0x0082  STOPS HERE at byte 130: "},
		"bad_client_id_length":                    {"CorrelationId int32 = 1001", ">> 0x000e  STOPS HERE at byte 14: "},
		"share_hb_req_v1_join":                    {"request ShareGroupHeartbeat v1 (key 76)", "body, not ours to decode"},
	} {
		v, ok := all[name]
		if !ok {
			t.Errorf("no frame %s", name)
			continue
		}
		text := decodeText(t, append(v.args(), "--hex", v.Hex)...)
		for _, want := range lines {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, text)
			}
		}
	}
}

// Every byte of an exact frame is in exactly one line.
func TestTextCoversEveryByte(t *testing.T) {
	for name, v := range golden(t) {
		if v.Expect != "ok" || v.Schema == "TxnShareAcknowledge-genA" {
			continue
		}
		next := 0
		for line := range strings.Lines(decodeText(t, append(v.args(), "--hex", v.Hex)...)) {
			var at, size int
			if n, _ := fmt.Sscanf(line, "   0x%x %dB", &at, &size); n == 2 {
				if at != next {
					t.Errorf("%s: byte %d follows byte %d: %s", name, at, next, line)
				}
				next = at + size
			}
		}
		if next != len(v.bytes(t)) {
			t.Errorf("%s: %d of %d bytes are shown", name, next, len(v.bytes(t)))
		}
	}
}
