package router

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The window says of every publish whether it is confirmed, as a plain list does.
func TestConfirmsWindow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := confirms{on: true, sent: rapid.Uint64Range(0, 200).Draw(rt, "before")}
		w.track()
		begin := w.sent + 1
		open := map[uint64]bool{}
		check := func(*rapid.T) {
			first := w.sent + 1
			for tag := range open {
				first = min(first, tag)
			}
			require.Equal(rt, first, w.first)
			require.Equal(rt, first <= w.sent, w.waits(w.sent))
			require.False(rt, w.waits(first-1))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(rt, "n") {
					w.published(1)
					open[w.sent] = true
				}
			},
			"one": func(rt *rapid.T) {
				for range 20 {
					tag := rapid.Uint64Range(1, w.sent+2).Draw(rt, "tag")
					w.confirmed(tag, false)
					delete(open, tag)
				}
			},
			"multiple": func(rt *rapid.T) {
				if w.sent < begin {
					rt.Skip()
				}
				to := rapid.Uint64Range(begin-1, w.sent).Draw(rt, "to")
				w.confirmed(to, true)
				for tag := begin; tag <= to; tag++ {
					delete(open, tag)
				}
			},
			"backwards": func(*rapid.T) { // out of order, as far as it can be
				for tag := w.sent; tag > w.first; tag-- {
					w.confirmed(tag, false)
					delete(open, tag)
				}
			},
			"": check,
		})
	})
}

// Without confirm.select, or before anything is tracked, there is no window.
func TestConfirmsOff(t *testing.T) {
	var w confirms
	w.track()
	w.published(1)
	w.confirmed(1, true)
	require.False(t, w.waits(w.last()))
	w.on = true
	w.published(1)
	require.False(t, w.waits(w.last()))
	w.confirmed(1, false)
	w.track()
	w.published(1)
	require.True(t, w.waits(w.last()))
	require.False(t, w.waits(1))
}

func TestConfirmsDoNotAllocate(t *testing.T) {
	w := confirms{on: true}
	w.track()
	run := func() {
		for range 500 {
			w.published(1)
		}
		for tag := w.sent; tag > w.sent-400; tag-- {
			w.confirmed(tag, false)
		}
		w.confirmed(w.sent-200, true)
	}
	run()
	require.Zero(t, testing.AllocsPerRun(100, run))
	require.LessOrEqual(t, len(w.done), 16)
}
