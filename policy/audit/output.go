package audit

import (
	"fmt"
	"io"
	"time"
)

const (
	// maxHeld bounds the lines that wait for a sink that fails, in bytes.
	maxHeld = 1 << 20
	// retryEvery is how often a sink that fails is tried again.
	retryEvery = 250 * time.Millisecond
	// reportEvery is how often a sink's failure is reported.
	reportEvery = 10 * time.Second
)

// output is an open sink. It belongs to the writing goroutine.
type output struct {
	name  string
	w     io.Writer
	close func() error
	file  *file // what w is, of a File
	again bool  // file is to be opened anew

	held      []byte // not written yet; begins inside a line where a write was cut short, and ends on a line end
	heldTally loss
	lost      loss // what held had no room for, since the last gap event
	err       error
	retryAt   time.Time
	reported  time.Time
	onError   func(error)
}

// mend has a line that another process left unfinished end before ours begin.
func (o *output) mend() {
	if o.file != nil && o.file.torn() {
		o.held = append(o.held, '\n')
	}
}

func (o *output) failing() bool { return len(o.held) > 0 || o.lost.events() > 0 }

// write takes whole lines: it writes them, or keeps them for later, or (false) loses them and counts. While a sink fails all that comes is
// kept or lost in order, so that what is kept stays a prefix of what is missing.
func (o *output) write(lines []byte, t *loss, now time.Time) bool {
	if !o.failing() {
		n, err := o.w.Write(lines)
		if err == nil {
			return true
		}
		lines = lines[n:]
		o.failed(err, now, len(lines))
		if len(lines) == 0 {
			return true
		}
	}
	if o.lost.events() > 0 || len(o.held)+len(lines) > maxHeld {
		o.lost.merge(t)
		return false
	}
	o.held = append(o.held, lines...)
	o.heldTally.merge(t)
	return true
}

// retry writes what is held, when it is time or at the end, and says whether nothing is held any more.
func (o *output) retry(now time.Time, last bool) bool {
	if len(o.held) == 0 {
		return true
	}
	if !last && now.Before(o.retryAt) {
		return false
	}
	n, err := o.w.Write(o.held)
	o.held = o.held[:copy(o.held, o.held[n:])]
	if err != nil {
		o.failed(err, now, len(o.held))
		return false
	}
	o.heldTally.reset()
	return true
}

// failed notes a failure, and reports it unless one was reported lately. waiting is how many bytes it left.
func (o *output) failed(err error, now time.Time, waiting int) {
	o.err, o.retryAt = err, now.Add(retryEvery)
	if o.onError == nil || now.Sub(o.reported) < reportEvery && !o.reported.IsZero() {
		return
	}
	o.reported = now
	o.onError(fmt.Errorf("audit sink %s: %w (%d bytes wait, %d events lost)", o.name, err, waiting, o.lost.events()))
}

// end closes the sink and says what it never wrote.
func (o *output) end() error {
	err := o.close()
	if err != nil {
		err = fmt.Errorf("audit sink %s: %w", o.name, err)
	}
	if o.failing() {
		err = fmt.Errorf("audit sink %s: %d events not written: %w", o.name, o.heldTally.events()+o.lost.events(), o.err)
	}
	return err
}
