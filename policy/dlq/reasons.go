package dlq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/ackproxy/ackproxy/policy/dlq/letter"
)

const (
	maxReason     = 1 << 10 // bytes
	maxReasonBody = 8 << 10
	reasonTimeout = 5 * time.Second
)

// reasons remembers what applications say about records that they are about to reject. It listens on loopback or on a unix socket only.
type reasons struct {
	known  *lru.Cache[place, string]
	server *http.Server
	served sync.WaitGroup
}

// place is a record of a group; topic is a name, or an id as text.
type place struct {
	Group, Topic string
	Partition    int32
	Offset       int64
}

// newReasons begins to listen; without a configuration it returns nil.
func newReasons(c *Reasons) (*reasons, error) {
	if c == nil {
		return nil, nil
	}
	network := "tcp"
	if strings.HasPrefix(c.Listen, "/") {
		network = "unix"
		removeDead(c.Listen)
	}
	l, err := net.Listen(network, c.Listen)
	if err != nil {
		return nil, err
	}
	r := &reasons{}
	r.known, _ = lru.New[place, string](c.Keep) // fails for sizes below 1 only
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/reasons", r.post)
	r.server = &http.Server{Handler: mux, ReadTimeout: reasonTimeout, WriteTimeout: reasonTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxReasonBody}
	r.served.Go(func() { r.server.Serve(l) }) // returns when close is called
	return r, nil
}

// removeDead removes the socket of a process that was killed. One that somebody listens to stays: its owner would not know that nothing comes there
// any more, and would remove ours in the end. Listening says why it cannot be.
func removeDead(path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != os.ModeSocket {
		return
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
}

func (r *reasons) post(w http.ResponseWriter, q *http.Request) {
	if kind := q.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") { // nothing that a web page could send unasked
		http.Error(w, "Content-Type: application/json is wanted", http.StatusUnsupportedMediaType)
		return
	}
	body := struct {
		place
		Reason string
	}{place: place{Partition: -1, Offset: -1}}
	d := json.NewDecoder(http.MaxBytesReader(w, q.Body, maxReasonBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if body.Group == "" || body.Topic == "" || body.Partition < 0 || body.Offset < 0 || body.Reason == "" || len(body.Reason) > maxReason {
		http.Error(w, fmt.Sprintf("group, topic, partition, offset and reason are wanted, and at most %d bytes of reason", maxReason),
			http.StatusBadRequest)
		return
	}
	r.known.Add(body.place, body.Reason)
	w.WriteHeader(http.StatusNoContent)
}

// find returns what was said about a record. It is kept: a client may have to repeat the Reject.
func (r *reasons) find(l *letter.Letter) (string, bool) {
	if r == nil {
		return "", false
	}
	at := place{l.Group, l.Topic, l.Partition, l.Offset}
	if text, ok := r.known.Get(at); ok {
		return text, true
	}
	at.Topic = l.TopicID.String()
	return r.known.Get(at)
}

// close stops listening, and waits for requests that are being answered for a moment.
func (r *reasons) close() error {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), reasonTimeout)
	defer cancel()
	err := r.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, r.server.Close())
	}
	r.served.Wait()
	return err
}
