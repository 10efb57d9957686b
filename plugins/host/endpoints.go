package host

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/policy"
)

var _ policy.EndpointPolicy = (*Plugin)(nil)

// MapsEndpoints says whether the plugin says where clients find brokers.
func (p *Plugin) MapsEndpoints() bool { return p.wants.maps }

// Endpoints asks the plugin. It returns when ctx ends; a ctx without a deadline gets the plugin's budget.
func (p *Plugin) Endpoints(ctx context.Context, c *policy.Client, nodes []policy.Node) (t policy.Table, err error) {
	if !p.wants.maps {
		return t, nil
	}
	s := p.session.Load()
	if s == nil {
		return t, p.down()
	}
	ctx, cancel := p.limit(ctx)
	defer cancel()
	m := wire.FromClient(c, nodes)
	if n := proto.Size(m) + envelope; n > s.wants.message {
		return t, fmt.Errorf("a question of %d bytes: %w", n, ErrTooLarge)
	}
	answer, err := s.api.Endpoints(ctx, m)
	switch {
	case ctx.Err() != nil:
		return t, context.Cause(ctx)
	case err != nil:
		return t, errors.New(printable(fmt.Sprintf("%.1024s", status.Convert(err).Message())))
	}
	return wire.ToTable(answer)
}
