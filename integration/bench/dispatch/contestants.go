package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/zap"

	"github.com/shardmq/shardmq/config/secret"
	"github.com/shardmq/shardmq/dispatch"
	"github.com/shardmq/shardmq/dispatch/target"
)

// endpoint does nothing, with any job.
type endpoint struct {
	*http.Server
	url   string
	first atomic.Int64 // when it was asked first, in Unix nanoseconds
	calls atomic.Int64
}

func listen() (*endpoint, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: "http://" + l.Addr().String()}
	e.Server = &http.Server{Handler: e, ReadHeaderTimeout: patience}
	go func() { _ = e.Serve(l) }() // until Close
	return e, nil
}

func (e *endpoint) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	e.first.CompareAndSwap(0, time.Now().UnixNano())
	_, _ = io.Copy(io.Discard, r.Body)
	e.calls.Add(1)
}

// task is a full queue.
type task struct {
	url, queue string
	endpoint   *endpoint
	options
}

// contestant empties a queue, and returns when the last job was acknowledged.
type contestant func(ctx context.Context, t task) (end time.Time, err error)

// bare is what everybody would write.
func bare(ctx context.Context, t task) (end time.Time, err error) {
	conn, err := amqp.Dial(t.url)
	if err != nil {
		return end, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return end, err
	}
	if err := ch.Qos(t.executors, 0, false); err != nil {
		return end, err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, t.queue, "", false, false, false, false, nil)
	if err != nil {
		return end, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: t.executors, MaxConnsPerHost: t.executors}}
	defer client.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(t.jobs))
	done := make(chan error, t.executors)
	var working sync.WaitGroup
	for range t.executors {
		working.Go(func() {
			for d := range deliveries {
				if err := post(ctx, client, t.endpoint.url, d.Body); err != nil {
					done <- err
					return
				}
				if err := d.Ack(false); err != nil {
					done <- err
					return
				}
				if left.Add(-1) == 0 {
					done <- nil
				}
			}
		})
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	end = time.Now()
	if err == nil {
		err = ch.Close() // the broker has all acknowledgements
	}
	_ = conn.Close() // which ends those that work
	working.Wait()
	return end, err
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the endpoint answers %s", answer.Status)
	}
	return nil
}

// pool is the dispatcher.
func pool(ctx context.Context, t task) (end time.Time, err error) {
	job := &dispatch.Job{Name: t.queue, Queue: t.queue, Server: dispatch.Server{Name: "bench", URL: secret.String(t.url)}, Executors: t.executors,
		Target:  target.Options{URL: t.endpoint.url, Timeout: dispatch.DefaultTimeout, Connections: t.executors},
		Retry:   dispatch.Retry{Attempts: 1, First: dispatch.DefaultBackoffFirst, Most: dispatch.DefaultBackoffMost, Then: dispatch.DeadLetter},
		Breaker: dispatch.Breaker{Failures: dispatch.DefaultBreakerFailures, Open: dispatch.DefaultBreakerOpen}}
	client, err := target.New(job.Target, job.Answers)
	if err != nil {
		return end, err
	}
	defer client.Close()
	p := dispatch.NewPool(job, client, nil, dispatch.DefaultDrain, zap.NewNop())
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(running)
	}()
	defer func() {
		stop()
		<-ended
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		st := p.Status()
		switch {
		case st.Done == uint64(t.jobs):
			return time.Now(), nil
		case len(st.Failures) > 0:
			return end, fmt.Errorf("the dispatcher: %s", st.Failures[0].Reason)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return end, context.Cause(ctx)
		}
	}
}
