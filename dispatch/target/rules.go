package target

import "bytes"

// Rules say what answers mean. The first of AckWhen, DropWhen and DeadLetterWhen that matches decides; where none does,
// the job is tried again.
type Rules struct {
	// AckWhen without statuses is about 200 to 299; so the zero value takes these for done.
	AckWhen, DropWhen, DeadLetterWhen Match
}

// Match matches answers. The zero value matches none.
type Match struct {
	Statuses []StatusRange // any of these; none: any status, if something is said of the body
	Body     string        // if not empty, what the body has to be: without space around it, in any case
	Contains string        // if not empty, what the body has to contain in its first 64 KiB
}

// StatusRange is a range of status codes, both ends included.
type StatusRange struct{ From, To int }

// SaysOK is what Consumer Dispatcher takes for done: a 200 that says ok.
func SaysOK() Match { return Match{Statuses: []StatusRange{{200, 200}}, Body: "ok"} }

// matcher is a Match made ready.
type matcher struct {
	statuses       []StatusRange
	body, contains []byte
	none           bool
}

func newMatcher(m Match) matcher {
	return matcher{statuses: m.Statuses, body: bytes.TrimSpace([]byte(m.Body)), contains: []byte(m.Contains),
		none: len(m.Statuses) == 0 && m.Body == "" && m.Contains == ""}
}

func (m *matcher) status(status int) bool {
	for _, r := range m.statuses {
		if r.From <= status && status <= r.To {
			return true
		}
	}
	return len(m.statuses) == 0 && !m.none
}

// whole reports whether a body is what it has to be. Of one that goes on behind what there is of it, the beginning is
// known only.
func (m *matcher) whole(body []byte, cut bool) bool {
	return (len(m.body) == 0 || !cut && bytes.EqualFold(bytes.TrimSpace(body), m.body)) &&
		(len(m.contains) == 0 || bytes.Contains(body, m.contains))
}

// rules are Rules made ready.
type rules struct{ ack, drop, dead matcher }

func newRules(r Rules) rules {
	if len(r.AckWhen.Statuses) == 0 {
		r.AckWhen.Statuses = []StatusRange{{200, 299}}
	}
	return rules{newMatcher(r.AckWhen), newMatcher(r.DropWhen), newMatcher(r.DeadLetterWhen)}
}

// judge says what an answer means. cut: its body goes on.
func (r *rules) judge(status int, body []byte, cut bool) Outcome {
	o := Outcome{Status: status, Class: classOf(status)}
	switch {
	case r.ack.status(status) && r.ack.whole(body, cut):
		o.Verdict, o.Class = Done, OK
	case r.drop.status(status) && r.drop.whole(body, cut):
		o.Verdict, o.Reason = Drop, statusText(status)+", which drop-when has"
	case r.dead.status(status) && r.dead.whole(body, cut):
		o.Verdict, o.Reason = Dead, statusText(status)+", which dead-letter-when has"
	case r.ack.status(status):
		o.Verdict, o.Reason = Again, statusText(status)+", but the body is not what ack-when wants"
	case 300 <= status && status < 400:
		o.Verdict, o.Reason = Again, statusText(status)+": redirects are not followed; give the URL that it leads to"
	default:
		o.Verdict, o.Reason = Again, statusText(status)
	}
	return o
}

// judgeItem says what the result of one job of a batch means. It has no body: what ack-when says of bodies goes for the
// answer as a whole, and other rules that speak of them do not match.
func (r *rules) judgeItem(status int) Outcome {
	items := *r
	items.ack.body, items.ack.contains = nil, nil
	for _, m := range []*matcher{&items.drop, &items.dead} {
		if len(m.body)+len(m.contains) > 0 {
			*m = matcher{none: true}
		}
	}
	return items.judge(status, nil, true)
}
