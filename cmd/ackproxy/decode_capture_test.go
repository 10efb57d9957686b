package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// recorder writes what a client and a broker say to each other as a capture.
type recorder struct {
	t   *testing.T
	out bytes.Buffer
	w   *pcapgo.Writer
	seq [2]uint32
	at  time.Time
}

func record(t *testing.T, handshake bool) *recorder {
	r := &recorder{t: t, seq: [2]uint32{1000, 2000}, at: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	r.w = pcapgo.NewWriter(&r.out)
	if err := r.w.WriteFileHeader(1<<18, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	if handshake {
		r.packet(0, true, nil)
		r.packet(1, true, nil)
	}
	return r
}

// packet is sent by the client (0) or the broker (1).
func (r *recorder) packet(from int, syn bool, data []byte) {
	r.t.Helper()
	ports := [2]layers.TCPPort{50001, 9092}
	ips := [2]net.IP{{10, 0, 0, 1}, {10, 0, 0, 2}}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: ips[from], DstIP: ips[1-from]}
	tcp := &layers.TCP{SrcPort: ports[from], DstPort: ports[1-from], Seq: r.seq[from], SYN: syn, ACK: from == 1 || !syn}
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		r.t.Fatal(err)
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: layers.EthernetTypeIPv4}, ip, tcp, gopacket.Payload(data))
	if err != nil {
		r.t.Fatal(err)
	}
	r.seq[from] += uint32(len(data))
	if syn {
		r.seq[from]++
	}
	r.at = r.at.Add(time.Millisecond)
	b := buf.Bytes()
	if err := r.w.WritePacket(gopacket.CaptureInfo{Timestamp: r.at, CaptureLength: len(b), Length: len(b)}, b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *recorder) client(data []byte) { r.packet(0, false, data) }
func (r *recorder) broker(data []byte) { r.packet(1, false, data) }

// request builds a frame with a header of version 1.
func request(key, version int16, id int32, body string) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(append(b, 0, 1, 'c'), body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func response(id int32, body string) []byte {
	b := append(binary.BigEndian.AppendUint32(make([]byte, 4), uint32(id)), body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Both directions are joined by correlation id, in whatever pieces the frames came.
func TestCapture(t *testing.T) {
	all := golden(t)
	fetch, fetched := all["k440_share_fetch_open_req"], all["k440_share_fetch_open_resp"]
	ack, acked := all["share_ack_req_v2_unknown_tags"], all["share_ack_resp_v2_unknown_tags"]
	for name, handshake := range map[string]bool{"with the handshake": true, "without the handshake": false} {
		t.Run(name, func(t *testing.T) {
			r := record(t, handshake)
			both := append(fetch.bytes(t), ack.bytes(t)...)
			r.client(both[:30])
			r.client(both[30:])
			answer := fetched.bytes(t)
			r.broker(answer[:100])
			r.broker(append(answer[100:], acked.bytes(t)...))
			status, o := decodeJSON(t, r.out.Bytes())
			if status != 0 || len(o) != 4 {
				t.Fatalf("status %d, %+v", status, o)
			}
			for i, want := range []vector{fetch, ack, fetched, acked} {
				if o[i].Kind != want.Kind || o[i].Decode != "exact" || *o[i].API != want.API || *o[i].APIVersion != want.APIVersion {
					t.Errorf("%d: %+v, want %s", i, o[i], want.Name)
				}
				if o[i].Connection != "10.0.0.1:50001 > 10.0.0.2:9092" || !strings.HasPrefix(o[i].Time, "2026-11-29T12:00:00.00") {
					t.Errorf("%d: %s at %s", i, o[i].Connection, o[i].Time)
				}
			}
			if o[1].Offset != int64(len(fetch.bytes(t))) || o[3].Offset != int64(len(answer)) {
				t.Errorf("offsets %d and %d", o[1].Offset, o[3].Offset)
			}
		})
	}
}

// Without the handshake the first bytes tell who the client is.
func TestLooksLikeRequest(t *testing.T) {
	for name, v := range golden(t) {
		want := v.Kind == "request"
		if h, ok := v.Header.(map[string]any); ok && h["ClientId"] == "" || name == "bad_client_id_length" || name == "bad_negative_size" {
			want = false // nothing that could be told from an answer's zeros, or no frame
		}
		if got := looksLikeRequest(v.bytes(t), 95); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for id := range int32(100) { // small correlation ids read as versions of Produce
		if looksLikeRequest(response(id, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"), 0) {
			t.Errorf("an answer with id %d is taken for a request", id)
		}
	}
}

// What was asked under key 80 is what is answered.
func TestCaptureKey80(t *testing.T) {
	all := golden(t)
	r := record(t, true)
	r.client(all["add_raft_voter_req_v0"].bytes(t))
	r.broker(all["add_raft_voter_resp_v0"].bytes(t))
	r.client(all["txn_share_ack_req_v0_key80"].bytes(t))
	r.broker(all["txn_share_ack_resp_v0_ok"].bytes(t))
	status, o := decodeJSON(t, r.out.Bytes(), "--txn-api-key", "80")
	if status != 0 || len(o) != 4 {
		t.Fatalf("status %d, %+v", status, o)
	}
	for i, want := range []string{"AddRaftVoter", "AddRaftVoter", "TxnShareAcknowledge", "TxnShareAcknowledge"} {
		if *o[i].API != want || o[i].Decode != "exact" {
			t.Errorf("%d: %s %s, want %s", i, *o[i].API, o[i].Decode, want)
		}
	}
}

// An answer without its request, bytes that the capture lacks, and a frame that it cuts.
func TestCaptureGaps(t *testing.T) {
	all := golden(t)
	ack := all["share_ack_req_v1_reject_range"].bytes(t)
	r := record(t, true)
	r.broker(response(77, "\x00\x00"))
	r.client(ack[:50])
	r.seq[0] += 9 // lost
	r.client(ack)
	r.client(ack[:20])
	status, o := decodeJSON(t, r.out.Bytes())
	if status != 1 || len(o) != 4 {
		t.Fatalf("status %d, %+v", status, o)
	}
	if o[0].Decode != "opaque" || o[0].API != nil || o[0].Note == "" {
		t.Errorf("%+v", o[0])
	}
	if o[1].Decode != "anomalous" || o[1].FrameBytes != 50 || !strings.Contains(o[1].Error.Reason, "the capture lacks 9 bytes") {
		t.Errorf("%+v", o[1])
	}
	if o[2].Decode != "exact" || o[2].Offset != 59 {
		t.Errorf("%+v", o[2])
	}
	if o[3].Decode != "anomalous" || o[3].FrameBytes != 20 {
		t.Errorf("%+v", o[3])
	}
	if status := execute([]string{"decode", "--response", "--api-key", "79", "--api-version", "1"}, bytes.NewReader(r.out.Bytes()), new(bytes.Buffer), new(bytes.Buffer)); status != statusUsage {
		t.Errorf("--response with a capture: status %d", status)
	}
}

// Secrets are in no output, whatever way SASL takes.
func TestSASLIsHidden(t *testing.T) {
	const secret = "\x00alice\x00hunter2-hunter2"
	token := append(binary.BigEndian.AppendUint32(nil, uint32(len(secret))), secret...)
	ack := golden(t)["share_ack_req_v1_reject_range"]
	mechanism := func(m string) string { return string([]byte{0, byte(len(m))}) + m }
	for name, c := range map[string]struct {
		frames [][]byte // client and broker in turn
		shown  int      // objects that are not hidden
	}{
		"v1":                    {[][]byte{request(17, 1, 1, mechanism("PLAIN")), response(1, "\x00\x00\x00\x00\x00\x00"), request(36, 0, 2, "\x00\x00\x00\x16"+secret), response(2, "\x00\x00\xff\xff\x00\x00\x00\x16"+secret), ack.bytes(t)}, 5},
		"v0 PLAIN":              {[][]byte{request(17, 0, 1, mechanism("PLAIN")), response(1, "\x00\x00\x00\x00\x00\x00"), token, token, ack.bytes(t)}, 3},
		"v0 SCRAM":              {[][]byte{request(17, 0, 1, mechanism("SCRAM-SHA-256")), response(1, "\x00\x00\x00\x00\x00\x00"), token, token, token, token, ack.bytes(t)}, 3},
		"v0 another":            {[][]byte{request(17, 0, 1, mechanism("OAUTHBEARER")), response(1, "\x00\x00\x00\x00\x00\x00"), token, token, token, token, token}, 2},
		"v0 refused":            {[][]byte{request(17, 0, 1, mechanism("PLAIN")), response(1, "\x00\x21\x00\x00\x00\x00"), ack.bytes(t)}, 3},
		"Kerberos of Kafka 0.9": {[][]byte{response(0x60000000, secret), response(0x60000000, secret)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t, true)
			var requests []byte
			for i, f := range c.frames {
				r.packet(i%2, false, f)
				if i%2 == 0 {
					requests = append(requests, f...)
				}
			}
			status, objects := decodeJSON(t, r.out.Bytes())
			shown := 0
			for _, o := range objects {
				if o.Header != nil {
					shown++
				}
			}
			if status != 0 || len(objects) != len(c.frames) || shown != c.shown {
				t.Errorf("status %d, %d objects, %d shown, want %d and %d: %+v", status, len(objects), shown, len(c.frames), c.shown, objects)
			}
			for _, in := range [][]byte{r.out.Bytes(), requests} {
				for _, format := range []string{"json", "text"} {
					var out, errs bytes.Buffer
					execute([]string{"decode", "--payloads", "-o", format}, bytes.NewReader(in), &out, &errs)
					for _, s := range []string{"alice", "hunter", hex.EncodeToString([]byte("hunter")), "29292"} {
						if strings.Contains(out.String()+errs.String(), s) {
							t.Errorf("%q in\n%s", s, out.String())
						}
					}
				}
			}
		})
	}
	var out bytes.Buffer
	answers := append(response(1, "\x00\x00\x00\x00\x00\x00"), token...)
	execute([]string{"decode", "--response", "--api-key", "17", "--api-version", "0"}, bytes.NewReader(answers), &out, &out)
	if !strings.Contains(out.String(), "a SASL token, not shown") || strings.Contains(out.String(), "6382697") {
		t.Error(out.String())
	}
}
