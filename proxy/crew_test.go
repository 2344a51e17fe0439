package proxy

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCrew: everything is run, all of it at once if need be; some of those who ran it stay, and go when told.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew()
		for range 2 {
			var running atomic.Int32
			release := make(chan struct{})
			for range 3 * mostIdle {
				c.start(func() {
					running.Add(1)
					<-release
				})
			}
			synctest.Wait()
			require.EqualValues(t, 3*mostIdle, running.Load())
			close(release)
			synctest.Wait()
			require.EqualValues(t, mostIdle, c.idle.Load())
		}
		time.Sleep(idleTime)
		synctest.Wait()
		require.Zero(t, c.idle.Load(), "nothing was to be done for a while")
		c.start(func() {})
		synctest.Wait()
		require.EqualValues(t, 1, c.idle.Load())
		close(c.over)
	})
}

// TestCrewStays: what comes one after the other is run by the same goroutine, whose stack has grown by then.
func TestCrewStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew()
		for range 100 {
			c.start(func() {})
			synctest.Wait()
			require.EqualValues(t, 1, c.idle.Load())
		}
		close(c.over)
	})
}
