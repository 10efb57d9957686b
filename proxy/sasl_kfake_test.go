package proxy

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/ackproxy/ackproxy/policy"
)

// TestSASLClients lets real clients authenticate through the proxy, and finds them in the outcomes.
func TestSASLClients(t *testing.T) {
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", secret),
		kfake.Superuser("SCRAM-SHA-256", "bob", secret), kfake.Superuser("SCRAM-SHA-512", "eve", secret))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for want, mechanism := range map[policy.Principal]sasl.Mechanism{
		{Name: "User:ann", Source: "sasl:PLAIN", VerifiedBy: "broker"}:         plain.Auth{User: "ann", Pass: secret}.AsMechanism(),
		{Name: "User:bob", Source: "sasl:SCRAM-SHA-256", VerifiedBy: "broker"}: scram.Auth{User: "bob", Pass: secret}.AsSha256Mechanism(),
		{Name: "User:eve", Source: "sasl:SCRAM-SHA-512", VerifiedBy: "broker"}: scram.Auth{User: "eve", Pass: secret}.AsSha512Mechanism(),
	} {
		t.Run(want.Name, func(t *testing.T) {
			seen := new(recorder)
			s := start(t, Config{Upstream: k.ListenAddrs(), Observers: []policy.Observer{seen}}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			group := "g-" + want.Name
			p := client(t, kgo.SeedBrokers(s.Addr()), kgo.SASL(mechanism), kgo.DefaultProduceTopic("orders"))
			if err := p.ProduceSync(ctx, kgo.StringRecord("one")).FirstErr(); err != nil {
				t.Fatal(err)
			}
			earliest(ctx, t, p, group)
			c := client(t, kgo.SeedBrokers(s.Addr()), kgo.SASL(mechanism), kgo.ConsumeTopics("orders"), kgo.ShareGroup(group), kgo.FetchMaxWait(100*time.Millisecond))
			for got := 0; got == 0; {
				fs := c.PollFetches(ctx)
				if err := fs.Err0(); err != nil {
					t.Fatal(err)
				}
				for _, r := range fs.Records() {
					r.Ack(kgo.AckAccept)
					got++
				}
			}
			if err := c.FlushAcks(ctx); err != nil {
				t.Fatal(err)
			}
			c.Close()
			if len(seen.seen()) == 0 {
				t.Error("nothing observed")
			}
			for _, o := range seen.seen() {
				if o.Request.Principal != want {
					t.Errorf("%+v, want %+v", o.Request.Principal, want)
				}
			}
		})
	}
	seen := new(recorder)
	s := start(t, Config{Upstream: k.ListenAddrs(), Observers: []policy.Observer{seen}}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client(t, kgo.SeedBrokers(s.Addr()), kgo.SASL(plain.Auth{User: "ann", Pass: "wrong"}.AsMechanism())).Ping(ctx); err == nil {
		t.Error("a wrong password was accepted")
	}
}
