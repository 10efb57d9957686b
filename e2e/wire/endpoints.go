package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// endpoint points at one address within a decoded answer.
type endpoint struct {
	node int32
	host *string
	port *int32
}

// rewritable says that a proxy may change an answer of this key: it has endpoints, or says what versions there are.
func rewritable(key int16) bool {
	switch key {
	case 0, 1, 3, 10, 18, 60, 78, 79:
		return true
	}
	return false
}

// endpoints are the addresses in an answer; places that hold none, as on errors, are left out.
func endpoints(r kmsg.Response) (all []endpoint) {
	add := func(node int32, host *string, port *int32) {
		if *host != "" {
			all = append(all, endpoint{node, host, port})
		}
	}
	switch r := r.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			b := &r.Brokers[i]
			add(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.FindCoordinatorResponse:
		add(r.NodeID, &r.Host, &r.Port)
		for i := range r.Coordinators {
			c := &r.Coordinators[i]
			add(c.NodeID, &c.Host, &c.Port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			b := &r.Brokers[i]
			add(b.NodeID, &b.Host, &b.Port)
		}
	case *kmsg.ProduceResponse:
		for i := range r.Brokers {
			add(r.Brokers[i].NodeID, &r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.FetchResponse:
		for i := range r.Brokers {
			add(r.Brokers[i].NodeID, &r.Brokers[i].Host, &r.Brokers[i].Port)
		}
	case *kmsg.ShareFetchResponse:
		for i := range r.NodeEndpoints {
			add(r.NodeEndpoints[i].NodeID, &r.NodeEndpoints[i].Host, &r.NodeEndpoints[i].Port)
		}
	case *kmsg.ShareAcknowledgeResponse:
		for i := range r.NodeEndpoints {
			add(r.NodeEndpoints[i].NodeID, &r.NodeEndpoints[i].Host, &r.NodeEndpoints[i].Port)
		}
	}
	return all
}

// blank removes what a proxy may change: addresses, and the tag that fills what a shorter address leaves over in a large answer whose
// size was sent before its end was seen. It says whether there was such a tag.
func blank(r kmsg.Response) (filled bool) {
	for _, e := range endpoints(r) {
		*e.host, *e.port = "", 0
	}
	tags := &kmsg.Tags{}
	switch r := r.(type) {
	case *kmsg.ProduceResponse:
		tags = &r.UnknownTags
	case *kmsg.FetchResponse:
		tags = &r.UnknownTags
	case *kmsg.ShareFetchResponse:
		tags = &r.UnknownTags
	}
	filled = tags.Len() > 0
	*tags = kmsg.Tags{}
	return filled
}

// offered allows a proxy to offer fewer APIs and versions than the broker, never more, and evens them out.
func offered(got, sent kmsg.Response) error {
	g, ok := got.(*kmsg.ApiVersionsResponse)
	if !ok {
		return nil
	}
	s := sent.(*kmsg.ApiVersionsResponse)
	broker := map[int16]kmsg.ApiVersionsResponseApiKey{}
	for _, k := range s.ApiKeys {
		broker[k.ApiKey] = k
	}
	for _, k := range g.ApiKeys {
		b, ok := broker[k.ApiKey]
		if !ok || k.MinVersion < b.MinVersion || k.MaxVersion > b.MaxVersion || k.MinVersion > k.MaxVersion {
			return fmt.Errorf("offers key %d in versions %d to %d, the broker %d to %d", k.ApiKey, k.MinVersion, k.MaxVersion, b.MinVersion, b.MaxVersion)
		}
	}
	s.ApiKeys = g.ApiKeys
	return nil
}
