package frames_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/frames"
)

func TestCodes(t *testing.T) {
	tests := []struct {
		code frames.Code
		name string
		hard bool
	}{
		{200, "REPLY_SUCCESS", false},
		{311, "CONTENT_TOO_LARGE", false},
		{312, "NO_ROUTE", false},
		{320, "CONNECTION_FORCED", true},
		{403, "ACCESS_REFUSED", false},
		{406, "PRECONDITION_FAILED", false},
		{501, "FRAME_ERROR", true},
		{506, "RESOURCE_ERROR", true},
		{530, "NOT_ALLOWED", true},
		{541, "INTERNAL_ERROR", true},
		{599, "CODE_599", true},
	}
	for _, tt := range tests {
		require.Equal(t, tt.name, tt.code.Name())
		require.Equal(t, tt.hard, tt.code.Hard(), tt.name)
	}
}

func TestExceptionTexts(t *testing.T) {
	e := &frames.Exception{Code: frames.NotFound, Text: "no queue 'q' in vhost '/'"}
	require.EqualError(t, e, "NOT_FOUND - no queue 'q' in vhost '/'")
	require.Equal(t, e.Error(), e.ReplyText())

	var got *frames.Exception
	require.ErrorAs(t, fmt.Errorf("wrapped: %w", e), &got)
	require.Same(t, e, got)
}

func TestReplyTextFits(t *testing.T) {
	for n := 200; n < 300; n++ {
		for _, unit := range []string{"x", "é", "€", "😀", "\x80"} {
			e := &frames.Exception{Code: frames.PreconditionFailed, Text: strings.Repeat("x", n%7) + strings.Repeat(unit, n)}
			s := e.ReplyText()
			require.LessOrEqual(t, len(s), 255)
			require.Equal(t, utf8.ValidString(unit), utf8.ValidString(s))
			if len(e.Error()) <= 255 {
				require.Equal(t, e.Error(), s)
				continue
			}
			require.GreaterOrEqual(t, len(s), 255-utf8.UTFMax+1)
			require.True(t, strings.HasSuffix(s, "..."))
			require.True(t, strings.HasPrefix(e.Error(), strings.TrimSuffix(s, "...")))
		}
	}
}
