package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardmq/shardmq/dispatch"
)

// readyTimeout bounds the search for a node that can be reached.
const readyTimeout = 3 * time.Second

// ready returns why clients should not be sent here now, or a text with what else is to be known. Where there is a
// proxy, it alone decides: its clients would gain nothing by being sent away because jobs have to wait.
func (o *Options) ready(ctx context.Context) (text string, err error) {
	var idle error
	if o.Jobs != nil {
		idle = jobsReady(o.Jobs.Jobs())
	}
	if o.Proxy == nil {
		return "ready", idle
	}
	if err := proxyReady(ctx, o.Proxy); err != nil {
		return "", err
	}
	if idle != nil {
		return "ready, but " + idle.Error(), nil
	}
	return "ready", nil
}

// jobsReady returns why no job can be done, unless there are none.
func jobsReady(all []dispatch.Status) error {
	var away []string
	for _, st := range all {
		if st.Connected {
			return nil
		}
		if !slices.Contains(away, st.Server) {
			away = append(away, st.Server)
		}
	}
	if away == nil {
		return nil
	}
	return fmt.Errorf("no jobs are fetched, for there is no connection to server %s; the log says why", strings.Join(away, ", "))
}

func proxyReady(ctx context.Context, src Source) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := src.Reachable(ctx); err != nil {
		return err
	}
	var waiting []string
	for _, v := range src.Status().Vhosts {
		if v.Coordination.Leader == "" && !v.Alone && !usable(v) {
			waiting = append(waiting, v.Name)
		}
	}
	if waiting != nil {
		return fmt.Errorf("no proxy leads yet in vhost %s", strings.Join(waiting, ", "))
	}
	return nil
}

// usable reports whether something has been decided on the exchanges of a vhost,
// so that they work without a leader.
func usable(v Vhost) bool {
	for _, x := range v.Exchanges {
		if x.Generation == 0 {
			return false
		}
	}
	return len(v.Exchanges) > 0
}
