package main

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// restart goes on after what it is connected to has ended, as soon as there is something to connect to again, and gets what was
// published meanwhile.
func (s *session) restart() (string, error) {
	fmt.Println("wait restart")
	lost, err := receive(s.closed)
	if err != nil {
		return "", err
	}
	if err := s.connectAgain(); err != nil {
		return "", err
	}
	if s.inbox, err = s.ch.Consume(s.queue, "worker", false, false, false, false, nil); err != nil {
		return "", err
	}
	d, err := receive(s.inbox)
	if err != nil || string(d.Body) != "meanwhile" {
		return "", fmt.Errorf("came: %q, %v", d.Body, err)
	}
	return fmt.Sprintf("after %d %s", lost.Code, lost.Reason), errors.Join(d.Ack(false), s.conn.Close())
}

// connectAgain tries until somebody listens.
func (s *session) connectAgain() error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		err := s.connect()
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline:
			return err
		}
	}
}
