package inventory

import (
	"errors"
	"fmt"
)

// oddity is something about what proxies say that was not as it should be.
type oddity struct {
	where, what, why string
	times            int
}

// oddityKinds bounds how many different ones a View keeps: anybody with rights may
// publish anything.
const oddityKinds = 10

var errNames = errors.New("shards of other names than the exchange's have")

// Warnings says what could not be heard or read, a line each.
func (v *View) Warnings() []string {
	var out []string
	for _, o := range v.oddities {
		switch {
		case o.what == "":
			out = append(out, o.why)
		default:
			out = append(out, fmt.Sprintf("%s: %s %s: %s", o.where, plural(int64(o.times), "message", "messages"), o.what, o.why))
		}
	}
	return out
}

// miss notes that proxies could not be heard, or not altogether.
func (v *View) miss(why error) {
	v.Partial = true
	v.odd(oddity{why: "what proxies say is not known altogether: " + why.Error()})
}

// unread notes a message that cannot be read. It may have been a proxy's, of another
// version for example.
func (v *View) unread(where string, why error) {
	v.Partial = true
	v.odd(oddity{where: where, what: "left out that cannot be read", why: why.Error()})
}

// foreign notes a message of another user, which no proxy believes.
func (v *View) foreign(where string) {
	v.odd(oddity{where: where, what: "left out that another user has sent", why: "proxies of one virtual host have to use the same control user"})
}

func (v *View) odd(o oddity) {
	for i := range v.oddities {
		old := &v.oddities[i]
		if last := i == oddityKinds-1; last || old.where == o.where && old.what == o.what && old.why == o.why {
			old.times++
			return
		}
	}
	o.times = 1
	v.oddities = append(v.oddities, o)
}
