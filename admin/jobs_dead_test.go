package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardmq/shardmq/dispatch"
)

func TestLettersAsShown(t *testing.T) {
	s := serve(t, two(), token)
	const first = `"id": "one", "reason": "too many attempts", "class": "5xx", "status": 500, "attempts": 3, "failed": "2026-05-06T12:00:00Z",
		"exchange": "x", "routing_key": "k", "content_type": "text/plain", "octets": 5`
	require.JSONEq(t, `{"letters": [{`+first+`}], "more": true}`, s.send("GET", mail+"/dead?limit=1", "").Body.String())
	require.JSONEq(t, `{"letters": [{`+first+`, "body": "Zmlyc3Q="}], "more": true}`,
		s.send("GET", mail+"/dead?limit=1&bodies=true", "").Body.String())

	var all Letters
	s.ok("GET", mail+"/dead", "", &all)
	require.Len(t, all.Letters, 3)
	require.False(t, all.More)
	require.Nil(t, all.Letters[1].Body)
	require.Equal(t, shownBody+1, all.Letters[1].Octets)
	s.ok("GET", mail+"/dead?id=two&bodies=1", "", &all)
	require.Len(t, all.Letters, 1)
	require.Len(t, all.Letters[0].Body, shownBody, "its beginning")
	require.True(t, all.Letters[0].Cut)
	s.ok("GET", mail+"/dead?id=none", "", &all)
	require.Empty(t, all.Letters)
	require.NotNil(t, all.Letters)
	require.Equal(t, two().letters, s.letters, "all are where they were")

	s.letters = make([]dispatch.Letter, lettersShown+1)
	s.ok("GET", mail+"/dead", "", &all)
	require.Len(t, all.Letters, lettersShown)
	require.True(t, all.More)
}

func TestSettleLetters(t *testing.T) {
	for _, how := range []string{"replay", "drop"} {
		s := serve(t, two(), token)
		var done Settled
		s.ok("POST", mail+"/dead/"+how, `{"id": "one"}`, &done)
		require.Equal(t, Settled{Letters: 1}, done)
		require.Equal(t, two().letters[1:], s.letters, "the oldest of that id is gone")
		s.ok("POST", mail+"/dead/"+how, `{"all": true}`, &done)
		require.Equal(t, Settled{Letters: 2}, done)
		require.Empty(t, s.letters)
		s.ok("POST", mail+"/dead/"+how, `{"all": true}`, &done)
		require.Equal(t, Settled{}, done)
	}
}

func TestDeskFails(t *testing.T) {
	s := serve(t, two(), token)
	s.failing = errors.New("get from queue: gone")
	for action, body := range map[string]string{"GET /dead": "", "POST /dead/replay": `{"all": true}`, "POST /dead/drop": `{"id": "two"}`} {
		method, path, _ := strings.Cut(action, " ")
		require.Equal(t, "get from queue: gone", s.refused(502, method, mail+path, body))
	}
	require.Equal(t, two().letters, s.letters)
}

// What is done before an error or the end of the time is told.
func TestSettledInPart(t *testing.T) {
	j := two()
	d := desk{j}
	j.letters[2].Reason, j.failing = "breaks", errors.New("the channel is closed")
	_, err := settled(t.Context(), d, "", dispatch.Discard)
	require.EqualError(t, err, "after 2: the channel is closed")
	_, err = settled(t.Context(), d, "", dispatch.Discard)
	require.EqualError(t, err, "the channel is closed")

	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err = settled(over, desk{two()}, "", dispatch.Replay)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing was done")

	for id, more := range map[string]bool{"": true, "one": false} {
		done, err := settled(t.Context(), ending{desk{two()}}, id, dispatch.Replay)
		require.NoError(t, err)
		require.Equal(t, Settled{Letters: 1, More: more}, done)
	}

	j = two()
	a := &jobsAPI{jobs: j, token: token} // without patience
	mux := http.NewServeMux()
	a.register(mux)
	s := &site{t, j, mux}
	require.Contains(t, s.refused(504, "GET", mail+"/dead", ""), "deadline exceeded")
}

// ending is a desk whose time is over after one letter.
type ending struct{ desk }

func (e ending) DeadLetters(_ context.Context, visit func(dispatch.Letter) (dispatch.Fate, error)) error {
	if _, err := visit(e.letters[0]); err != nil {
		return err
	}
	return context.DeadlineExceeded
}
