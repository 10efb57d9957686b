package dlq

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackproxy/ackproxy/policy"
)

func TestCheck(t *testing.T) {
	r := newRig(t)
	dead := map[string]any{"bootstrap": []string{"127.0.0.1:1"}}
	for name, c := range map[string]struct {
		further     map[string]any
		keys, notes string
	}{
		"good":           {map[string]any{"topic": "dlq.orders", "source": r.address()}, "", ""},
		"a template":     {map[string]any{"topic": "dlq.{topic}"}, "", ""},
		"not there yet":  {map[string]any{"topic": "dlq.{topic}.{group}"}, "", "topic"},
		"no topic":       {map[string]any{"topic": "dlq.missing"}, "topic", ""},
		"made if needed": {map[string]any{"topic": "dlq.missing", "create": map[string]any{}}, "", "topic"},
		"nor a name":     {map[string]any{"topic": "dlq.{topic}.{group}", "create": map[string]any{}}, "", "topic"},
		"too few":        {map[string]any{"topic": "dlq.missing", "create": map[string]any{"replication": 99}}, "topic", "topic"},
		"too few for it": {map[string]any{"topic": "dlq.{topic}", "create": map[string]any{"replication": 99}}, "topic", ""},
		"down":           {map[string]any{"source": dead, "clusters": map[string]any{"east": dead}}, "clusters.east source", ""},
		"rules": {map[string]any{"rules": []any{map[string]any{"match": map[string]any{"group": "a"}, "topic": "dlq.missing"},
			map[string]any{"match": map[string]any{"group": "b"}, "topic": "dlq.orders"},
			map[string]any{"match": map[string]any{"group": "c"}, "topic": "dlq.c.{topic}"}}}, "rules[0].topic", "rules[2].topic"},
	} {
		config := map[string]any{"cluster": r.address()}
		maps.Copy(config, c.further)
		if wrong, notes := checked(t, config); keysOf(wrong) != c.keys || keysOf(notes) != c.notes {
			t.Errorf("%s: %v, notes %v", name, wrong, notes)
		}
	}
}

// What is not permitted is said of topics that exist.
func TestCheckPermissions(t *testing.T) {
	topic := func(name string, pattern kmsg.ACLResourcePatternType, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: pattern, Operation: op, Allow: true}
	}
	settings := kfake.ACL{Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Pattern: kmsg.ACLResourcePatternTypeLiteral,
		Operation: kmsg.ACLOperationDescribeConfigs, Allow: true}
	const literal, prefixed = kmsg.ACLResourcePatternTypeLiteral, kmsg.ACLResourcePatternTypePrefixed
	r := newRig(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser(mechanismPlain, "root", "p"), kfake.SeedTopics(1, "dlq.a", "dlq.b", "x.a"),
		kfake.User(mechanismPlain, "writer", "p", topic("dlq.", prefixed, kmsg.ACLOperationWrite)),
		kfake.User(mechanismPlain, "maker", "p", topic("dlq.", prefixed, kmsg.ACLOperationWrite), topic("dlq.", prefixed, kmsg.ACLOperationCreate)),
		kfake.User(mechanismPlain, "half", "p", topic("dlq.", prefixed, kmsg.ACLOperationDescribe), topic("dlq.a", literal, kmsg.ACLOperationWrite),
			topic("dlq.a", literal, kmsg.ACLOperationRead), settings),
		kfake.User(mechanismPlain, "blind", "p", settings),
		kfake.User(mechanismPlain, "looker", "p", topic("orders", literal, kmsg.ACLOperationDescribe)))
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("p"), 0o600); err != nil {
		t.Fatal(err)
	}
	as := func(user string) map[string]any {
		return map[string]any{"bootstrap": r.cluster.ListenAddrs(), "sasl": map[string]any{"mechanism": mechanismPlain, "username": user, "password_file": password}}
	}
	for _, c := range []struct{ writer, source, wrong, notes string }{
		{"root", "root", "", ""},
		{"writer", "half", "", "source: there is no permission to read dlq.b, dlq.orders"},
		{"half", "root", "topic: dlq.b, dlq.orders: there is no permission to write", ""},
		{"blind", "blind", "", "topic: dlq.{topic}: not checked whether it may be written to, there is no topic of such a name yet, or none that may be seen; " +
			"source: not checked whether records may be read, there is no topic yet, or none that may be seen"},
		{"writer", "looker", "source: the brokers' settings cannot be read: CLUSTER_AUTHORIZATION_FAILED (permit DESCRIBE_CONFIGS on the cluster); " +
			"source: there is no permission to read any topic (permit READ on those that are dead-lettered)", ""},
	} {
		wrong, notes := checked(t, map[string]any{"cluster": as(c.writer), "source": as(c.source)})
		if text(wrong) != c.wrong || text(notes) != c.notes {
			t.Errorf("%s, %s: %s\nnotes %s", c.writer, c.source, text(wrong), text(notes))
		}
	}
	const unseen = ": not checked whether it may be written to, there is no "
	for _, c := range []struct{ writer, topic, wrong, notes string }{
		{"maker", "dlq.missing", "", "topic: dlq.missing" + unseen + "such topic yet"},
		{"writer", "dlq.missing", "topic: dlq.missing: it could not be made: TOPIC_AUTHORIZATION_FAILED (permit CREATE on it)",
			"topic: dlq.missing" + unseen + "such topic yet"},
		{"maker", "dlq.x.{topic}", "", "topic: dlq.x.{topic}" + unseen + "topic of such a name yet, or none that may be seen"},
		{"writer", "dlq.{topic}", "", "topic: dlq.{topic}: it could not be made: TOPIC_AUTHORIZATION_FAILED, asked of dlq.ackproxy-validate"},
	} {
		wrong, notes := checked(t, map[string]any{"cluster": as(c.writer), "topic": c.topic, "create": map[string]any{}})
		if text(wrong) != c.wrong || text(notes) != c.notes {
			t.Errorf("%s, %s: %s\nnotes %s", c.writer, c.topic, text(wrong), text(notes))
		}
	}
}

// checked is what Check says of a configuration, sorted.
func checked(t *testing.T, config map[string]any) (wrong, notes []*policy.ConfigError) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	all, err := parsed.Check(ctx)
	for _, one := range all {
		notes = append(notes, one.(*policy.ConfigError))
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			wrong = append(wrong, one.(*policy.ConfigError))
		}
	}
	return wrong, notes
}

func keysOf(all []*policy.ConfigError) string {
	var keys []string
	for _, one := range all {
		keys = append(keys, one.Key)
	}
	return strings.Join(keys, " ")
}

func text(all []*policy.ConfigError) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, one.Error())
	}
	return strings.Join(texts, "; ")
}
