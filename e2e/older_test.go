package e2e

import (
	"testing"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

// TestOlderBrokers does what TestClients does in front of the older releases that have share groups.
func TestOlderBrokers(t *testing.T) {
	for _, v := range kafka.Versions[1:] {
		t.Run(v, func(t *testing.T) {
			kinds := client.Kinds
			if v < "4.2" {
				// 4.1 wants member ids in the URL form of base64. librdkafka 2.16.0 uses the other one, so that every second member,
				// whose id has a + or a /, gets nothing but UNKNOWN_SERVER_ERROR.
				kinds = []client.Kind{client.Java, client.Kgo}
			}
			matrix(t, cluster(t, v, 1), kinds, []string{client.Explicit, client.ExplicitSync})
			t.Run("dead letters", func(t *testing.T) { clientsReject(t, cluster(t, v, 1), kinds) })
		})
	}
}
