package sdk

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ackproxy/ackproxy/plugins/internal/wire"
	"github.com/ackproxy/ackproxy/plugins/pluginpb/ackproxy/policy/v1"
)

// Endpoints answers where a client is told to find brokers. A panic is an error of this one answer.
func (s *server) Endpoints(ctx context.Context, m *policyv1.EndpointsRequest) (answer *policyv1.EndpointsResponse, err error) {
	p, err := s.parts()
	if err == nil && p.endpoints == nil {
		err = status.Error(codes.Unimplemented, "maps no endpoints")
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(os.Stderr, "panic: %v\n%s", r, debug.Stack())
			err = status.Errorf(codes.Internal, "panic: %v", r)
		}
	}()
	client, nodes := wire.ToClient(m)
	t, err := p.endpoints.Endpoints(ctx, client, nodes)
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return wire.FromTable(&t), nil
}
