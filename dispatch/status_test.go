package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// What nobody has looked at is not known, which is not the same as empty.
func TestStatusAtTheStart(t *testing.T) {
	p := NewPool(&Job{Name: "mail", Executors: 2, Paused: true}, nil, nil, 0, zap.NewNop())
	st := p.Status()
	require.Equal(t, -1, st.Backlog)
	require.Equal(t, 2, st.Wanted)
	require.True(t, st.Paused)
	require.False(t, st.Connected)
}
