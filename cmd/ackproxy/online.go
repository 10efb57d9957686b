package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/cmd/ackproxy/internal/config"
	"github.com/ackproxy/ackproxy/codec"
)

// brokerReport is what one address of the upstream answered.
type brokerReport struct {
	Address   string              `json:"address"`
	Reachable bool                `json:"reachable"`
	ClusterID string              `json:"cluster_id,omitempty"`
	Nodes     []int32             `json:"nodes,omitempty"`
	Versions  map[string][2]int16 `json:"versions,omitempty"` // lowest and highest, by the name of the API
	Share     *shareVersion       `json:"share_version,omitempty"`
	Problems  []string            `json:"problems"`
	Notes     []string            `json:"notes,omitempty"`
}

// shareVersion is the feature that switches share groups on.
type shareVersion struct {
	Finalized int16 `json:"finalized"` // 0: share groups are off
	Supported int16 `json:"supported"` // the highest level
}

// shareAPIs are the keys that share consumers need.
var shareAPIs = []int16{codec.KeyShareGroupHeartbeat, codec.KeyShareGroupDescribe, codec.KeyShareFetch, codec.KeyShareAcknowledge}

// askBrokers asks each bootstrap broker, and each node whose address is configured, once.
func askBrokers(ctx context.Context, c config.Config) []brokerReport {
	addresses := slices.Clone(c.Upstream.Bootstrap)
	for _, id := range sortedIDs(c.Upstream.Nodes) {
		if a := c.Upstream.Nodes[id]; !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	var reports []brokerReport
	for _, a := range addresses {
		r := brokerReport{Address: string(a), Problems: []string{}}
		r.ask(ctx, time.Duration(c.Upstream.DialTimeout), int(c.Listen.BrokerPorts.Base))
		reports = append(reports, r)
	}
	return reports
}

func sortedIDs(nodes map[int32]config.HostPort) []int32 {
	var ids []int32
	for id := range nodes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (r *brokerReport) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *brokerReport) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *brokerReport) ask(ctx context.Context, timeout time.Duration, base int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.Address), kgo.ClientID("ackproxy-validate"), kgo.DialTimeout(timeout), kgo.RequestRetries(0))
	if err != nil {
		r.problem("%v", err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	broker := client.SeedBrokers()[0]
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "ackproxy-validate", kafkaSchema
	answer, err := broker.Request(ctx, versions)
	if err != nil {
		r.problem("not reachable, or not a Kafka listener without TLS: %v", err)
		return
	}
	r.Reachable = true
	r.versions(answer.(*kmsg.ApiVersionsResponse))
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = []kmsg.MetadataRequestTopic{}
	answer, err = broker.Request(ctx, meta)
	if err != nil {
		r.note("Metadata was not answered (%v): a broker that wants SASL does that, and ackproxy has no credentials of its own", err)
		return
	}
	r.metadata(answer.(*kmsg.MetadataResponse), base)
}

// versions checks which versions of the share APIs there are, and whether share groups are on.
func (r *brokerReport) versions(v *kmsg.ApiVersionsResponse) {
	if err := kerr.ErrorForCode(v.ErrorCode); err != nil {
		r.problem("ApiVersions was refused: %v", err)
		return
	}
	r.Versions = map[string][2]int16{}
	for _, k := range v.ApiKeys {
		if slices.Contains(shareAPIs, k.ApiKey) {
			r.Versions[codec.Name(k.ApiKey)] = [2]int16{k.MinVersion, k.MaxVersion}
		}
	}
	for _, key := range shareAPIs {
		name := codec.Name(key)
		have, ok := r.Versions[name]
		switch {
		case !ok:
			r.problem("%s (key %d) is missing: share groups came with Kafka 4.1", name, key)
		case have[0] > codec.MaxVersion(key):
			r.problem("%s (key %d) begins at version %d, this ackproxy reads up to %d", name, key, have[0], codec.MaxVersion(key))
		case have[1] > codec.MaxVersion(key):
			r.note("%s has version %d, clients will be offered %d", name, have[1], codec.MaxVersion(key))
		}
	}
	r.Share = &shareVersion{}
	for _, f := range v.SupportedFeatures {
		if f.Name == "share.version" {
			r.Share.Supported = f.MaxVersion
		}
	}
	for _, f := range v.FinalizedFeatures {
		if f.Name == "share.version" {
			r.Share.Finalized = f.MaxVersionLevel
		}
	}
	if r.Share.Finalized < 1 {
		r.problem("share groups are off: the feature share.version is at 0 (kafka-features.sh --bootstrap-server %s upgrade --feature share.version=1)", r.Address)
	}
}

func (r *brokerReport) metadata(m *kmsg.MetadataResponse, base int) {
	if m.ClusterID != nil {
		r.ClusterID = *m.ClusterID
	}
	for _, b := range m.Brokers {
		r.Nodes = append(r.Nodes, b.NodeID)
		if port := base + int(b.NodeID); port > 65535 {
			r.problem("node %d would be served on port %d: lower listen.broker_ports.base", b.NodeID, port)
		}
	}
	slices.Sort(r.Nodes)
	if len(r.Nodes) == 0 {
		r.problem("Metadata lists no broker")
	}
}

func (r *brokerReport) print(w io.Writer) {
	if !r.Reachable {
		fmt.Fprintf(w, "%s: %s\n", r.Address, strings.Join(r.Problems, "; "))
		return
	}
	fmt.Fprintf(w, "%s: reachable, cluster %s, nodes %v\n", r.Address, r.ClusterID, r.Nodes)
	for _, key := range shareAPIs {
		if v, ok := r.Versions[codec.Name(key)]; ok {
			fmt.Fprintf(w, "  %s (key %d): versions %d to %d\n", codec.Name(key), key, v[0], v[1])
		}
	}
	if r.Share != nil {
		fmt.Fprintf(w, "  share.version: %d of at most %d\n", r.Share.Finalized, r.Share.Supported)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", n)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  problem: %s\n", p)
	}
}
