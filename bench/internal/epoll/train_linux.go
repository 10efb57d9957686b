package epoll

import "encoding/binary"

// Train is one frame, many times over, to be sent with one call. The frames' correlation ids are written just before each call, so that
// all connections of a loop share one Train.
type Train struct {
	buf   []byte
	frame int // bytes of one
	idAt  int
}

// NewTrain repeats frame as often as fits into about 64 KiB, at least once and at most 256 times; idAt is where its correlation id is.
func NewTrain(frame []byte, idAt int) *Train {
	n := min(max(64<<10/len(frame), 1), 256)
	t := &Train{frame: len(frame), idAt: idAt}
	for range n {
		t.buf = append(t.buf, frame...)
	}
	return t
}

// Frame is the size of one frame.
func (t *Train) Frame() int { return t.frame }

// Send sends frames with the given ids, the first of which has been sent up to byte off. It returns how many ended and how far the next
// one got, with Again when there is no room for more.
func (t *Train) Send(fd int, ids []int32, off int) (ended, newOff int, err error) {
	for ended < len(ids) {
		batch := ids[ended:]
		batch = batch[:min(len(batch), len(t.buf)/t.frame)]
		for i, id := range batch {
			binary.BigEndian.PutUint32(t.buf[i*t.frame+t.idAt:], uint32(id))
		}
		want := len(batch)*t.frame - off
		n, err := Send(fd, t.buf[off:off+want])
		if err != nil {
			return ended, off, err
		}
		ended += (off + n) / t.frame
		off = (off + n) % t.frame
		if n < want {
			return ended, off, Again
		}
	}
	return ended, off, nil
}
