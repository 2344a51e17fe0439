package admin

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardmq/shardmq/shards"
)

// Bounds of what is exported. Names of exchanges under a pattern come from
// clients, so their number has no other bound.
const (
	maxExchanges = 1000
	maxShards    = 10000
)

// Metrics exports how a proxy stands. What brokers must be asked for is as old as
// the proxy's own last look: a scrape costs them nothing.
type Metrics struct{ src Source }

// NewMetrics returns the collector of a proxy's metrics.
func NewMetrics(src Source) *Metrics { return &Metrics{src: src} }

var (
	exchangeLabels = []string{"vhost", "exchange"}
	shardLabels    = []string{"vhost", "exchange", "node", "shard"}

	buildInfo   = desc("build_info", "A metric with the constant value 1, labelled with shardmq's version.", "version")
	connections = desc("connections", "Client connections there are now.")
	accepted    = desc("connections_total", "Client connections accepted since the start.")
	refused     = desc("connections_refused_total", "Client connections refused because no RabbitMQ node could be reached.")
	limit       = desc("connections_limit", "Client connections there may be at the same time.")
	turnedAway  = desc("connections_turned_away_total", "Client connections turned away because there were as many as there may be.")
	accepting   = desc("accept_errors_total", "Failed attempts to accept a connection, for lack of file descriptors mostly.")

	nodeUp          = desc("node_up", "Whether the proxy's control connections to the node stand (1) or not (0).", "node")
	nodeConnections = desc("node_connections", "Client connections of this proxy to the node.", "node")

	leader  = desc("leader", "Whether this proxy leads in the vhost (1) or not (0).", "vhost")
	led     = desc("led", "Whether this proxy knows of a leader in the vhost (1) or not (0).", "vhost")
	term    = desc("leader_term", "The term of the leader obeyed: it grows with every election.", "vhost")
	proxies = desc("proxies", "Proxies that take part in the vhost, this one included.", "vhost")

	shardsThere     = desc("shards", "Shards of the exchange that are to be consumed.", exchangeLabels...)
	shardsLive      = desc("shards_live", "Shards of the exchange that publishes go to.", exchangeLabels...)
	shardsUncovered = desc("shards_uncovered", "Shards granted to no consumer of any proxy, though there are consumers.", exchangeLabels...)
	shardMoves      = desc("shard_moves_total", "How often a shard went from one consumer to another, over all proxies.", exchangeLabels...)
	catchAll        = desc("catch_all_messages_total", "Messages this proxy delivered that had no shard key, for they had not been published through a proxy; a lower bound.", exchangeLabels...)
	generation      = desc("shard_generation", "The number of the shard set that publishes go by; it grows when the set changes.", exchangeLabels...)
	skew            = desc("shard_skew_ratio", "Ready messages of the fullest shard by the mean of all; 1 is even.", exchangeLabels...)
	differing       = desc("proxies_differing", "Proxies whose configuration of the exchange is not like most others', or has for a minute asked for something else than was adopted.", exchangeLabels...)
	consumers       = desc("consumers", "Client consumers of this proxy on the exchange.", exchangeLabels...)
	omitted         = desc("exchanges_omitted", "Exchanges left out of the metrics by their bounds.")

	shardReady     = desc("shard_messages_ready", "Ready messages in the shard, when the proxy looked last.", shardLabels...)
	shardConsumers = desc("shard_consumers", "Consumers of the shard over all proxies, when the proxy looked last.", shardLabels...)
)

// all lists the descriptions, in the order of docs/metrics.md.
var all = []metric{
	buildInfo, connections, accepted, refused, limit, turnedAway, accepting, nodeUp, nodeConnections, leader, led, term, proxies,
	shardsThere, shardsLive, shardsUncovered, shardMoves, catchAll, generation, skew, differing, consumers, omitted, shardReady, shardConsumers,
}

// metric describes one metric.
type metric struct {
	*prometheus.Desc
	name, help string
	labels     []string
}

func desc(name, help string, labels ...string) metric {
	name = "shardmq_" + name
	return metric{prometheus.NewDesc(name, help, labels, nil), name, help, labels}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range all {
		out <- d.Desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	s := m.src.Status()
	e := exporter{out: out}
	e.gauge(buildInfo, 1, s.Version)
	e.gauge(connections, float64(s.Connections))
	e.counter(accepted, float64(s.Accepted))
	e.counter(refused, float64(s.Refused))
	e.gauge(limit, float64(s.Limit))
	e.counter(turnedAway, float64(s.TurnedAway))
	e.counter(accepting, float64(s.AcceptErrors))
	for _, n := range s.Nodes {
		if n.Known {
			e.gauge(nodeUp, truth(n.Up), n.Name)
		}
		e.gauge(nodeConnections, float64(n.Connections), n.Name)
	}
	for i := range s.Vhosts {
		e.vhost(&s.Vhosts[i])
	}
	e.gauge(omitted, float64(e.omitted))
}

// version exports what process this is, where it is no proxy.
type version string

// Describe implements prometheus.Collector.
func (version) Describe(out chan<- *prometheus.Desc) { out <- buildInfo.Desc }

// Collect implements prometheus.Collector.
func (v version) Collect(out chan<- prometheus.Metric) {
	e := exporter{out: out}
	e.gauge(buildInfo, 1, string(v))
}

// exporter makes metrics of a status and counts them.
type exporter struct {
	out                        chan<- prometheus.Metric
	exchanges, shards, omitted int
}

func (e *exporter) gauge(m metric, v float64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(m.Desc, prometheus.GaugeValue, v, printable(labels)...)
}

func (e *exporter) counter(m metric, v float64, labels ...string) {
	e.out <- prometheus.MustNewConstMetric(m.Desc, prometheus.CounterValue, v, printable(labels)...)
}

// printable quotes label values that Prometheus would not take: RabbitMQ's names are octets.
func printable(labels []string) []string {
	out := make([]string, len(labels))
	for i, l := range labels {
		if out[i] = l; !utf8.ValidString(l) {
			out[i] = strconv.Quote(l)
		}
	}
	return out
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (e *exporter) vhost(v *Vhost) {
	c := &v.Coordination
	e.gauge(leader, truth(c.Leads), v.Name)
	e.gauge(led, truth(c.Leader != ""), v.Name)
	e.gauge(term, float64(c.Term), v.Name)
	e.gauge(proxies, float64(len(c.Proxies)), v.Name)
	for i := range v.Exchanges {
		x := &v.Exchanges[i]
		if e.exchanges == maxExchanges || e.shards+len(x.Shards) > maxShards {
			e.omitted++
			continue
		}
		e.exchanges++
		e.shards += len(x.Shards)
		e.exchange(v.Name, x)
	}
}

func (e *exporter) exchange(vhost string, x *shards.ExchangeSnapshot) {
	labels := []string{vhost, x.Exchange}
	live := 0
	for i := range x.Shards {
		if x.Shards[i].Live {
			live++
		}
		e.shard(labels, &x.Shards[i])
	}
	e.gauge(shardsThere, float64(len(x.Shards)), labels...)
	e.gauge(shardsLive, float64(live), labels...)
	e.gauge(shardsUncovered, float64(len(x.Uncovered)), labels...)
	e.counter(shardMoves, float64(x.Moves), labels...)
	e.counter(catchAll, float64(x.Unsharded), labels...)
	e.gauge(generation, float64(x.Generation), labels...)
	e.gauge(differing, float64(x.Differing), labels...)
	e.gauge(consumers, float64(x.Consumers), labels...)
	if ratio, known := skewOf(x.Shards); known {
		e.gauge(skew, ratio, labels...)
	}
}

func (e *exporter) shard(labels []string, s *shards.ShardSnapshot) {
	if !s.Known {
		return
	}
	// Its index alone does not name it: a node may have shards of both ways of naming while one replaces the other.
	name := strings.TrimPrefix(s.Queue, "sharding: "+labels[1]+" - ")
	of := append(labels[:len(labels):len(labels)], s.Node, name)
	e.gauge(shardReady, float64(s.Ready), of...)
	e.gauge(shardConsumers, float64(s.Consumers), of...)
}

// skewOf returns the highest number of ready messages by the mean, over the shards
// that publishes go to; empty ones are even.
func skewOf(all []shards.ShardSnapshot) (ratio float64, known bool) {
	var sum, most, n float64
	for i := range all {
		if s := &all[i]; s.Known && s.Live {
			n++
			sum += float64(s.Ready)
			most = max(most, float64(s.Ready))
		}
	}
	switch {
	case n == 0:
		return 0, false
	case sum == 0:
		return 1, true
	}
	return most / (sum / n), true
}
