package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/shardmq/shardmq/dispatch"
)

// backoff is a list of two durations: the first delay and the longest.
type backoff struct{ dst *dispatch.Retry }

func (b backoff) keys(k Key) []Key {
	k.Type = "list of 2 durations"
	return []Key{k}
}

func (b backoff) read(p *parser, at place) {
	at = p.resolve(at)
	const want = "the first delay and the longest, e.g. [1s, 5m]"
	if at.node.Kind != yaml.SequenceNode {
		p.fault(at, "is %s; give a list of %s", describe(at.node), want)
		return
	}
	if n := len(at.node.Content); n != 2 {
		p.fault(at, "has %d elements; give two, %s", n, want)
		return
	}
	before := len(p.problems)
	r := b.dst
	for i, each := range []scalar{
		durationBetween(dispatch.ShortestDelay, dispatch.LongestDelay, &r.First),
		durationBetween(dispatch.ShortestDelay, dispatch.LongestDelay, &r.Most),
	} {
		each.read(p, place{node: at.node.Content[i], path: fmt.Sprintf("%s[%d]", at.path, i)})
	}
	if len(p.problems) == before && r.First > r.Most {
		p.fault(at, "begins with %s, more than the longest, %s; give %s", r.First, r.Most, want)
	}
}
