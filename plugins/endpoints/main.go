// Command endpoints is the stock policy of that name as a plugin.
package main

import (
	"github.com/ackproxy/ackproxy/plugins/sdk"
	"github.com/ackproxy/ackproxy/policy"
	"github.com/ackproxy/ackproxy/policy/endpoints"
)

func main() {
	sdk.ServeEndpoints(func(config []byte) (policy.EndpointPolicy, error) { return endpoints.New("endpoints", config) })
}
