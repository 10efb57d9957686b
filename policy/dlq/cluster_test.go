package dlq

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

func TestSASL(t *testing.T) {
	for _, mechanism := range []string{mechanismPlain, mechanismScram256, mechanismScram512} {
		t.Run(mechanism, func(t *testing.T) {
			r := newRig(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "alice", "secret"), kfake.Superuser(mechanismPlain, "reader", "r"))
			password := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(password, []byte("wrong\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cluster := r.address()
			cluster["sasl"] = map[string]any{"mechanism": mechanism, "username": "alice", "password_file": password}
			r.start(map[string]any{"cluster": cluster})
			r.keep(2)
			if v := r.decide(r.request(5, reject(0, 0))); len(v.Edits) > 0 || len(r.spool()) != 1 {
				t.Fatalf("with a wrong password: verdict %+v", v)
			}
			if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil { // it takes no restart
				t.Fatal(err)
			}
			until(t, "the spool is empty", func() bool { return len(r.spool()) == 0 })
			if v := r.decide(r.request(5, reject(1, 1))); v.Reason != "dead letters: 1 produced" {
				t.Errorf("verdict %+v", v)
			}
			r.read = []kgo.Opt{kgo.SASL(plain.Auth{User: "reader", Pass: "r"}.AsMechanism())}
			r.distinct("dlq.orders", 2)
		})
	}
}
