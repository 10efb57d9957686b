package proxy

import (
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// fewConns is how many connections get goroutines of their own. Those answer soonest; many cost less on loops, where one wake-up
// serves all that are ready, and an idle one has no stacks.
const fewConns = 16

// harvest is how many events a loop takes at a time.
const harvest = 128

// readsATurn is how often a half reads before others on its loop have their turn.
const readsATurn = 16

// epollET is EPOLLET, which package syscall has as a negative number.
const epollET = 1 << 31

// loops are the server's loops, started when the first connection needs one: one for each processor that Go uses.
type loops struct {
	mu   sync.Mutex
	all  []*loop
	next int
	work sync.WaitGroup
}

// adopt gives c to a loop. It reports false where that cannot be; c then stays as it is.
func (ls *loops) adopt(c *conn) bool {
	client, ok := c.ends.client.(*net.TCPConn)
	if !ok {
		return false
	}
	broker, ok := c.ends.broker.(*net.TCPConn)
	if !ok {
		return false
	}
	l, err := ls.pick()
	if err != nil {
		return false
	}
	fds := [2]int{}
	if fds[0], err = dupOf(client); err != nil {
		return false
	}
	if fds[1], err = dupOf(broker); err != nil {
		syscall.Close(fds[0])
		return false
	}
	if l.take(c, fds) != nil {
		syscall.Close(fds[0])
		syscall.Close(fds[1])
		return false
	}
	client.Close() // the duplicates go on; Go's own poller no longer looks at the sockets
	broker.Close()
	return true
}

// pick returns the loop whose turn it is.
func (ls *loops) pick() (*loop, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all == nil {
		for range runtime.GOMAXPROCS(0) {
			l, err := newLoop(&ls.work)
			if err != nil {
				return nil, err
			}
			ls.all = append(ls.all, l)
		}
	}
	ls.next++
	return ls.all[ls.next%len(ls.all)], nil
}

// close ends the loops, which serve nothing any more.
func (ls *loops) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.all {
		l.file.Close()
	}
	ls.work.Wait()
	ls.all = nil
}

// dupOf is a descriptor of c's socket that Go's poller does not know.
func dupOf(c *net.TCPConn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(old uintptr) {
		fd, err = dup(int(old))
	})
	if err == nil {
		err = failed
	}
	return fd, err
}

func dup(fd int) (int, error) {
	n, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if e != 0 {
		return 0, os.NewSyscallError("fcntl", e)
	}
	return int(n), nil
}

// loop serves many connections on one goroutine: both halves of each, with the same parse-and-forward core, for as long as they wait for
// nothing but readability. A connection that has to wait for anything else leaves with the goroutine, which is its own from then on, and
// the loop goes on with a new one. It never comes back.
type loop struct {
	epfd int
	file *os.File // owns epfd, which Go's poller watches: a loop with nothing to do occupies no thread
	raw  syscall.RawConn
	work *sync.WaitGroup // counts the goroutine

	mu    sync.Mutex
	slots []slot // by the number that epoll gives back
	free  []int32

	events [harvest]syscall.EpollEvent
	n      int     // events that poll took
	turn   []ready // what is still to be served
	ready  [2 * harvest]ready
}

// slot is one half's place. Its number is used again; round tells an event of an earlier half.
type slot struct {
	c     *conn
	h     *half
	round int32
}

// ready is a half with something to read.
type ready struct {
	c      *conn
	h      *half
	events uint32
}

func newLoop(work *sync.WaitGroup) (*loop, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &loop{epfd: fd, file: os.NewFile(uintptr(fd), "epoll"), work: work}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		return nil, err
	}
	work.Add(1)
	go l.run()
	return l, nil
}

// run serves until the loop is closed, or until its goroutine has left with a connection.
func (l *loop) run() {
	defer l.work.Done()
	for {
		for len(l.turn) > 0 {
			r := l.turn[0]
			l.turn = l.turn[1:]
			if !l.serve(r) {
				return
			}
		}
		if !l.gather() {
			return
		}
		runtime.Gosched() // accept loops, and connections with goroutines, have their turn, too
	}
}

// gather waits until something is ready. It is false once the loop is closed.
func (l *loop) gather() bool {
	if err := l.raw.Read(l.poll); err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn = l.ready[:0]
	for _, e := range l.events[:l.n] {
		if s := l.slots[e.Fd]; s.h != nil && s.round == e.Pad {
			l.turn = append(l.turn, ready{s.c, s.h, e.Events})
		}
	}
	return true
}

// poll takes what epoll has; false lets Go's poller wait for more.
func (l *loop) poll(fd uintptr) bool {
	n, _, e := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), 0, 0, 0)
	if e != 0 {
		n = 0
	}
	l.n = int(n)
	return n > 0
}

// serve lets a half read and forward. It is false when the goroutine has become the connection's own, and ended with it.
func (l *loop) serve(r ready) bool {
	h := r.h
	if h.over { // earlier in this turn
		return true
	}
	s := h.src.(*socket)
	if r.events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
		h.in.fin = true
	}
	fresh := false
	n, parked, err := h.pump(s.fd, &fresh)
	switch {
	case err != nil:
	case parked && h.leave != nil:
		if h.again {
			h.again = false
			l.turn = append(l.turn, r)
		}
		return true
	case n == endOfInput && s.late.Load():
		err = h.tooSlow()
	case n == endOfInput:
		err = h.finish()
	case n != readMore:
		if err = h.other(n); err == nil { // the connection leaves first
			err = h.drain()
		}
		fallthrough
	default: // it has left
		if err == nil {
			err = h.run()
		}
	}
	r.c.ended(h, err)
	return h.leave != nil
}

// take registers both halves of c, or changes nothing.
func (l *loop) take(c *conn, fds [2]int) error {
	client, broker := &socket{fd: fds[0]}, &socket{fd: fds[1]}
	l.mu.Lock() // no event is looked up meanwhile
	defer l.mu.Unlock()
	var err error
	if c.up.slot, err = l.add(c, c.up, client); err != nil {
		return err
	}
	if c.down.slot, err = l.add(c, c.down, broker); err != nil {
		l.remove(c.up.slot, client)
		return err
	}
	c.loop = l
	c.swap(client, broker)
	c.up.onLoop(c, client, broker)
	c.down.onLoop(c, broker, client)
	return nil
}

// add gives h a slot and registers the socket it reads from. The caller holds l.mu.
func (l *loop) add(c *conn, h *half, from *socket) (int32, error) {
	if len(l.free) == 0 {
		l.free = append(l.free, int32(len(l.slots)))
		l.slots = append(l.slots, slot{})
	}
	at := l.free[len(l.free)-1]
	s := &l.slots[at]
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | epollET, Fd: at, Pad: s.round}
	if err := syscall.EpollCtl(l.epfd, syscall.EPOLL_CTL_ADD, from.fd, &event); err != nil {
		return 0, os.NewSyscallError("epoll_ctl", err)
	}
	l.free = l.free[:len(l.free)-1]
	s.c, s.h = c, h
	return at, nil
}

// remove gives a slot back. The caller holds l.mu.
func (l *loop) remove(at int32, from *socket) {
	syscall.EpollCtl(l.epfd, syscall.EPOLL_CTL_DEL, from.fd, nil)
	l.slots[at] = slot{round: l.slots[at].round + 1}
	l.free = append(l.free, at)
}

// drop removes both halves of c.
func (l *loop) drop(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range []*half{c.up, c.down} {
		l.remove(h.slot, h.src.(*socket))
	}
}
