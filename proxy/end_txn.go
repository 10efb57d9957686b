package proxy

import (
	"context"
	"fmt"

	"github.com/ackproxy/ackproxy/codec"
	"github.com/ackproxy/ackproxy/policy"
)

// endTxn has the policies decide about the end of a transaction. The request passes as it came, or the connection ends before.
func (r *requests) endTxn(x *exchange, frame []byte, body int) error {
	end := r.readEnd(x, frame, body)
	if end == nil {
		return nil
	}
	chain, ctx := r.c.srv.cfg.Policies, context.Background()
	if chain.Waits() {
		if err := r.h.readyToWait(); err != nil {
			return err
		}
		watched, stop := r.c.watch()
		defer stop()
		ctx = watched
	}
	d := chain.EndTransaction(ctx, end)
	r.c.srv.metrics.decided(d)
	if d.Close == policy.CloseBefore {
		err := refusal(d)
		if why := d.Trail[len(d.Trail)-1].Reason; why != "" {
			err = fmt.Errorf("%w: %s", err, why)
		}
		return err
	}
	x.need, x.end = needEnd, end
	return nil
}

// readEnd reads an EndTxn as the coordinator will: bytes after it, and tags in any order, keep no broker from serving it. It is nil where the broker
// will close the connection, and in a version that we do not know: both pass, and are counted.
func (r *requests) readEnd(x *exchange, frame []byte, body int) *policy.TransactionEnd {
	passes := r.c.srv.metrics.decode
	if x.version < 0 || x.version > codec.MaxVersion(x.key) {
		passes.WithLabelValues(apiName(x.key), "version").Inc()
		return nil
	}
	s := &scanner{p: frame, at: body}
	id := transactionalID(s, x.version)
	e := &policy.TransactionEnd{Conn: r.c.info, Principal: *r.c.principal.Load(), CorrelationID: x.correlationID, TransactionalID: string(id)}
	e.ProducerID, e.ProducerEpoch, e.Committed = s.int64(), s.int16(), s.uint8() != 0
	if x.version >= flexibleEndTxn {
		s.tags(nil)
	}
	if id == nil || s.err != nil {
		passes.WithLabelValues(apiName(x.key), "anomalous").Inc()
		return nil
	}
	return e
}

// flexibleEndTxn is the first version of EndTxn with tagged fields.
const flexibleEndTxn = 3

// transactionalID reads the first field of an EndTxn. It is nil where it is null, which no broker takes.
func transactionalID(s *scanner, version int16) []byte {
	if version >= flexibleEndTxn {
		return s.text()
	}
	n := int(s.int16())
	if n < 0 {
		return nil
	}
	return s.take(n)
}

// endTxn tells the policies whether a transaction has ended. The answer has no addresses: it passes whatever is in it.
func (r *responses) endTxn(x exchange, frame []byte) {
	s := &scanner{p: frame}
	if skipHeader(s, x) == nil {
		s.int32() // throttle time
		if code := s.int16(); s.err == nil {
			r.c.srv.cfg.Policies.TransactionEnded(x.end, code)
			return
		}
	}
	r.c.srv.metrics.decode.WithLabelValues(apiName(x.key), "response").Inc()
}
