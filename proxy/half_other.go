//go:build !linux

package proxy

import "net"

// inq is Linux only.
type inq struct{}

// run forwards until the end of the source; nil after a clean one.
func (h *half) run() error {
	defer h.close()
	return h.runConn()
}

func (h *half) relay(n int) error {
	if err := h.flush(); err != nil {
		return err
	}
	return h.relayConn(n)
}

func sender(c net.Conn) (func([]byte) error, error) {
	return func(p []byte) error { _, err := c.Write(p); return err }, nil
}

// wasReset cannot tell here: the connection's end shows when the decision is over.
func wasReset(net.Conn) bool { return false }
