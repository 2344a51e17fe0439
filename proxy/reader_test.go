package proxy

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A thousand idle connections must not hold a thousand buffers.
func TestIdleReaderHoldsNoBuffer(t *testing.T) {
	near, far := tcpPair(t)
	defer near.Close()
	defer far.Close()
	d := newReader(near)
	_, err := far.Write([]byte("abc"))
	require.NoError(t, err)
	require.NoError(t, d.fill(0))
	require.Equal(t, "abc", string(d.unread()))
	d.consume(3)
	require.NoError(t, near.SetReadDeadline(time.Now().Add(time.Millisecond)))
	require.ErrorIs(t, d.fill(0), os.ErrDeadlineExceeded)
	require.Nil(t, d.buf)
}

// What is left of a frame moves to where the whole frame fits, and stays the same.
func TestReaderMakesRoom(t *testing.T) {
	near, far := tcpPair(t)
	defer near.Close()
	data := pattern(3 * largeBuffer)
	go func() {
		_, _ = far.Write(data)
		_ = far.Close()
	}()
	d := newReader(near)
	require.NoError(t, d.fill(0))
	d.consume(1)
	want := data[1:]
	for len(d.unread()) < len(want) {
		require.NoError(t, d.fill(len(want)))
	}
	require.Equal(t, want, d.unread())
	require.ErrorIs(t, d.fill(0), io.EOF)
	d.consume(len(want))
	require.Nil(t, d.buf)
}
