package wire

import (
	"reflect"
	"testing"
	"time"

	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
	"github.com/ackproxy/ackproxy/policy"
)

func TestClientsAndTables(t *testing.T) {
	c := &policy.Client{
		Conn: &policy.Conn{
			ID: "c-1", Listener: "broker-2", BrokerID: 2, Client: "1.2.3.4:5", Upstream: "k:9092", Opened: time.Unix(1700000000, 5).UTC(),
		},
		Principal: policy.Principal{Name: "User:alice", Source: "sasl:PLAIN", VerifiedBy: "broker"}, ClientID: "app\xff", Software: "s/1",
	}
	nodes := []policy.Node{{ID: 2, Host: "proxy", Port: 19102, Upstream: "k:9092"}}
	for range 2 {
		m := across(t, FromClient(c, nodes), &policyv1.EndpointsRequest{})
		if (m.ClientId == nil) != (c.ClientID == "") {
			t.Errorf("client id %q became %v", c.ClientID, m.ClientId)
		}
		got, gotNodes := ToClient(m)
		want := *c
		if want.ClientID != "" {
			want.ClientID = "app\uFFFD"
		}
		if !reflect.DeepEqual(got, &want) || !reflect.DeepEqual(gotNodes, nodes) {
			t.Errorf("%+v %+v, want %+v %+v", got, gotNodes, want, nodes)
		}
		c.ClientID = ""
	}
	for _, table := range []policy.Table{{}, {Host: "{id}.z", PortBase: 7, Nodes: map[int32]policy.Endpoint{1: {Host: "a", Port: 1}, -2: {}}}} {
		if got, err := ToTable(across(t, FromTable(&table), &policyv1.EndpointsResponse{})); err != nil || !reflect.DeepEqual(got, table) {
			t.Errorf("%+v, %v, want %+v", got, err, table)
		}
	}
	if _, err := ToTable(&policyv1.EndpointsResponse{Nodes: []*policyv1.NodeEndpoint{{Id: 1, Host: "a"}, {Id: 1, Host: "b"}}}); err == nil {
		t.Error("a node in two places is accepted")
	}
}
