// Command install prepares what the end-to-end tests need: the jars of each Kafka release, the Python environment and the compiled
// clients, in e2e/.cache or $E2E_CACHE. The tests do the same when it was not run.
package main

import (
	"context"
	"log"

	"github.com/ackproxy/ackproxy/e2e/client"
	"github.com/ackproxy/ackproxy/e2e/kafka"
)

func main() {
	log.SetFlags(0)
	ctx := context.Background()
	for _, v := range kafka.Versions {
		dir, err := kafka.Jars(ctx, v)
		if err != nil {
			log.Fatal(err)
		}
		log.Printf("Kafka %s: %s", v, dir)
	}
	if err := client.Install(ctx); err != nil {
		log.Fatal(err)
	}
	log.Printf("clients: %v", client.Kinds)
}
