package dispatch

import "sync"

// sequence hands on the deliveries of a channel in the order in which the broker has sent them, which their tags tell:
// those of different consumers overtake one another on their way through the client library. Every delivery of the
// channel has to come by. Safe for concurrent use.
type sequence struct {
	mu    sync.Mutex
	last  uint64           // the tag of the last one that was handed on; tags begin with 1
	early map[uint64]*item // those that wait for others, by their tags
}

// push gives a job to each, behind all that were sent before it, or keeps it until those are there.
func (q *sequence) push(it *item, each func(*item)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.delivery.DeliveryTag != q.last+1 {
		if q.early == nil {
			q.early = map[uint64]*item{}
		}
		q.early[it.delivery.DeliveryTag] = it
		return
	}
	for is := true; is; it, is = q.early[q.last+1] {
		q.last++
		delete(q.early, q.last)
		each(it)
	}
}
