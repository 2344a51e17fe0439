package proxy

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// parker watches the sockets of parked relays: an epoll instance of its own, which the runtime's watches. Safe for concurrent use.
type parker struct {
	fd   int
	file *os.File // of fd
	raw  syscall.RawConn

	mu     sync.Mutex // a leaf
	relays map[int32]*relay
	last   int32 // token that was given out
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
	p := &parker{fd: fd, file: os.NewFile(uintptr(fd), "epoll"), relays: map[int32]*relay{}}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// watch has the relay woken once there is something to read; false when that cannot be. The session's mu is held.
func (p *parker) watch(d *relay) (ok bool) {
	p.mu.Lock()
	if d.token == 0 {
		for d.token == 0 || p.relays[d.token] != nil {
			p.last++
			d.token = p.last
		}
		p.relays[d.token] = d
	}
	p.mu.Unlock()
	// What has come since the relay looked is an event too. A closed socket drops out by itself.
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT, Fd: d.token}
	err := d.in.raw.Control(func(fd uintptr) {
		err := syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_MOD, int(fd), &event)
		if errors.Is(err, syscall.ENOENT) {
			err = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, int(fd), &event)
		}
		ok = err == nil
	})
	return ok && err == nil
}

// forget drops a relay that has ended.
func (p *parker) forget(d *relay) {
	if d.token != 0 { // else it never was here
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.relays, d.token)
	}
}

// run wakes relays until the parker is closed.
func (p *parker) run() {
	var events [128]syscall.EpollEvent
	for {
		n := 0
		err := p.raw.Read(func(fd uintptr) bool {
			var err error
			n, err = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0 || err != nil && !errors.Is(err, syscall.EINTR)
		})
		if err != nil {
			return
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			d := p.relays[e.Fd]
			p.mu.Unlock()
			if d != nil {
				d.s.mu.Lock()
				d.s.wake(d)
				d.s.mu.Unlock()
			}
		}
	}
}

func (p *parker) close() { _ = p.file.Close() }
