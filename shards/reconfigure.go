package shards

import "slices"

// Reconfigure goes over to other policies and to the nodes of brokers, all of them
// from now on; nil leaves the nodes as they are. Connections that stay have to be
// the same values as before. Those that are not in the list any more are closed;
// the new ones are the topology's from now on. It returns at once: shards are
// changed in the background, together with the other proxies. Publishes go by the
// policies at once, save for what the number of shards is.
//
// An exchange that no policy matches any more is an ordinary one for publishes and
// for new consumers. Those it has stay until they leave, and so do its shards.
func (t *Topology) Reconfigure(policies *Policies, brokers []Broker) {
	t.reconfigured.Lock()
	defer t.reconfigured.Unlock()
	if t.ctx.Err() != nil {
		t.closeBrokers(brokersWithout(brokers, t.nodes.all()))
		return
	}
	if brokers != nil {
		t.replaceBrokers(brokers)
	}
	kept, former := t.routes.replace(policies)
	for _, x := range former {
		t.log.Info("no policy is for the exchange any more: what is published to it without a key of its own binding goes to its catch-all; "+
			"its shards stay until 'shardmq shards prune' removes them", "exchange", x.Name, "vhost", t.vhost,
			"policy", x.Policy().Name, "catch_all", Unsharded(x.Name))
		x.work.disown()
		t.amend(x, func(*State) {}) // no change of its shards is waited for
		t.regroup(x)
	}
	for _, x := range t.routes.exchanges() {
		if was := kept[x]; was != nil {
			t.tellChange(x, was, x.Policy())
		}
		t.amend(x, func(*State) {}) // on-node-down may be another
		t.finishLater(x)
	}
}

// replaceBrokers has other nodes used.
func (t *Topology) replaceBrokers(brokers []Broker) {
	before := t.nodes.all()
	t.nodes.set(brokers)
	for _, b := range brokersWithout(brokers, before) {
		t.wire(b)
	}
	if gone := brokersWithout(before, brokers); len(gone) > 0 && !t.spawn(func() { t.closeBrokers(gone) }) {
		t.closeBrokers(gone)
	}
}

// brokersWithout returns the brokers that are not among others.
func brokersWithout(brokers, others []Broker) []Broker {
	return slices.DeleteFunc(slices.Clone(brokers), func(b Broker) bool { return slices.Contains(others, b) })
}

// closeBrokers closes connections nobody needs any more.
func (t *Topology) closeBrokers(brokers []Broker) {
	for _, b := range brokers {
		if err := b.Close(); err != nil {
			t.log.Warn("control connection not closed", "node", b.Node(), "vhost", t.vhost, "error", err.Error())
		}
	}
}

// tellChange logs what a changed policy does to messages that are on their way.
func (t *Topology) tellChange(x *Exchange, was, now *Policy) {
	before, after := &was.Definition, &now.Definition
	var what []string
	if before.Hash != after.Hash {
		what = append(what, "hash")
	}
	if !before.HashOn.same(&after.HashOn) {
		what = append(what, "hash-on")
	}
	if (before.Shards != after.Shards || before.ShardsPerNode != after.ShardsPerNode) && !after.Barrier {
		what = append(what, "number of shards")
	}
	if len(what) > 0 {
		t.log.Info("messages with the same key go to other shards than before: those that wait are overtaken",
			"exchange", x.Name, "vhost", t.vhost, "policy", now.Name, "changed", what)
	}
	if before.ExchangeType != after.ExchangeType {
		t.log.Info("exchange-type has changed: it decides what is done when the exchange is declared, and how an existing direct one is used",
			"exchange", x.Name, "vhost", t.vhost, "policy", now.Name)
	}
	if before.RoutingKey != after.RoutingKey {
		t.log.Info("routing-key has changed: shards of an exchange of another type get the new binding and keep the former one",
			"exchange", x.Name, "vhost", t.vhost, "policy", now.Name)
	}
	if before.shardKey() != after.shardKey() {
		t.log.Info("queue-arguments have changed: shards that exist keep theirs", "exchange", x.Name, "vhost", t.vhost, "policy", now.Name)
	}
}
