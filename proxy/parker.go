package proxy

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// parker watches the sockets of parked relays, and no others: an epoll instance of its own, which the runtime's watches. It waits for nobody,
// neither for a socket nor for a session. Safe for concurrent use.
type parker struct {
	fd   int
	file *os.File // of fd
	raw  syscall.RawConn

	mu     sync.Mutex // a leaf
	relays map[int32]*relay
	last   int32 // token that was given out
	over   bool  // nobody is watched any more

	beats *heartbeats
}

func newParker() (*parker, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // for the runtime to watch it
		_ = syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &parker{fd: fd, file: os.NewFile(uintptr(fd), "epoll"), relays: map[int32]*relay{}, beats: newHeartbeats()}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// errNotWatching is why nobody is parked any more.
var errNotWatching = errors.New("sockets are not watched any more")

// watch has the relay woken once there is something to read. The session's mu is held.
func (p *parker) watch(d *relay) error {
	if !p.admit(d) {
		return errNotWatching
	}
	// What has come since the relay looked is an event too. A closed socket drops out by itself.
	return p.control(d, syscall.EPOLL_CTL_ADD, &syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP, Fd: d.token})
}

// unwatch undoes that. An error says that the socket is not watched anyway.
func (p *parker) unwatch(d *relay) { _ = p.control(d, syscall.EPOLL_CTL_DEL, nil) }

func (p *parker) control(d *relay, op int, event *syscall.EpollEvent) error {
	var err error
	if closed := d.in.raw.Control(func(fd uintptr) { err = syscall.EpollCtl(p.fd, op, int(fd), event) }); closed != nil {
		return closed
	}
	return os.NewSyscallError("epoll_ctl", err)
}

// admit gives a relay its token.
func (p *parker) admit(d *relay) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.token == 0 {
		for d.token == 0 || p.relays[d.token] != nil {
			p.last++
			d.token = p.last
		}
		p.relays[d.token] = d
	}
	return !p.over
}

// forget drops a relay that has ended.
func (p *parker) forget(d *relay) {
	if d.token != 0 { // else it never was here
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.relays, d.token)
	}
}

// run wakes relays until the parker is closed. Should it fail, all of them go on unparked.
func (p *parker) run() error {
	defer p.release()
	defer p.beats.release()
	var events [128]syscall.EpollEvent
	var n int
	var failed error
	look := func(fd uintptr) bool { // made once: a closure per call would be an allocation per event
		n, failed = wait(int(fd), events[:])
		return n > 0 || failed != nil
	}
	for {
		if err := p.raw.Read(look); err != nil {
			return nil //nolint:nilerr // closed
		}
		if failed != nil {
			return os.NewSyscallError("epoll_wait", failed)
		}
		for _, e := range events[:n] {
			p.mu.Lock()
			d := p.relays[e.Fd]
			p.mu.Unlock()
			if d != nil {
				p.stir(d, e.Events)
			}
		}
	}
}

// stir deals with an event at a relay's socket. It stays an event until the socket has been read or is not watched any more.
func (p *parker) stir(d *relay, events uint32) {
	s := d.s
	defer s.guard() // the router may panic
	if !s.mu.TryLock() {
		p.unwatch(d)
		s.wakeSoon(d)
		return
	}
	defer s.mu.Unlock()
	if d.parked.Load() && (events != syscall.EPOLLIN || !p.beats.pass(d)) {
		s.wake(d)
	}
}

// wait asks for events that are there. It tries again when it was interrupted: the runtime tells of an event once.
func wait(fd int, events []syscall.EpollEvent) (int, error) {
	for {
		n, err := syscall.EpollWait(fd, events, 0)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// release wakes everybody.
func (p *parker) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, d := range p.relays {
		d.s.wakeSoon(d)
	}
}

func (p *parker) close() { _ = p.file.Close() }
