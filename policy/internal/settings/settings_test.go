package settings

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ackproxy/ackproxy/policy"
)

type loud string

func (l *loud) UnmarshalText(b []byte) error {
	if string(b) == "quiet" {
		return &policy.ConfigError{Problem: "is quiet", Hint: "be loud"}
	}
	*l = loud(strings.ToUpper(string(b)))
	return nil
}

type config struct {
	Name  string           `json:"name"`
	Base  int              `json:"base"`
	On    bool             `json:"on"`
	Loud  loud             `json:"loud"`
	Tags  []string         `json:"tags"`
	Rules []rule           `json:"rules"`
	Nodes map[int32]string `json:"nodes"`
	Ports *rule            `json:"ports"`
	Inner int              `json:"-"`
}

type rule struct {
	Topic string `json:"topic"`
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         config
		mistakes     string
	}{
		{"empty", " ", config{}, ""},
		{"null", "null", config{}, ""},
		{
			"all", `{"name":"a","base":3,"on":true,"loud":"x","tags":"one","rules":[{"topic":"t"},{}],"nodes":{"7":"h"},"ports":{"topic":"p"}}`,
			config{Name: "a", Base: 3, On: true, Loud: "X", Tags: []string{"one"}, Rules: []rule{{"t"}, {}}, Nodes: map[int32]string{7: "h"}, Ports: &rule{"p"}}, "",
		},
		{"not JSON", "{", config{}, "is not JSON: unexpected EOF"},
		{"not a mapping", "[]", config{}, "is a list where a mapping is expected"},
		{"all wrong", `{"Name":"a","base":1.5,"Inner":1,"loud":"quiet","nodes":{"x":"h"},"on":"yes","ports":[],"rules":[{"tropic":1},{"topic":2},3]}`,
			config{Nodes: map[int32]string{}, Rules: make([]rule, 3)}, strings.Join([]string{
				"Inner: unknown key (the keys here are base, loud, name, nodes, on, ports, rules, tags)",
				"Name: unknown key (the keys here are base, loud, name, nodes, on, ports, rules, tags)",
				"base: is a number where a whole number is expected",
				"loud: is quiet (be loud)",
				"nodes.x: is a number where a whole number is expected",
				"on: is text where true or false is expected",
				"ports: is a list where a mapping is expected",
				"rules[0].tropic: unknown key (the keys here are topic)",
				"rules[1].topic: is a number where text is expected",
				"rules[2]: is a number where a mapping is expected",
			}, "\n")},
		{"number too large", `{"nodes":{"2147483648":"h"}}`, config{Nodes: map[int32]string{}}, "nodes.2147483648: is a number where a whole number is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got config
			m := Read([]byte(c.config), &got)
			text := ""
			if err := m.Err(); err != nil {
				text = err.Error()
			}
			if text != c.mistakes || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v\n%s\nwant %+v\n%s", got, text, c.want, c.mistakes)
			}
		})
	}
}
