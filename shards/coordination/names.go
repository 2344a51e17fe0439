package coordination

// What proxies agree over has these names at the broker, in every virtual host.
const (
	// MembersExchange is a fanout: what proxies tell each other.
	MembersExchange = "shardmq.members"
	// StateExchange is direct: it leads to StateQueue and what stands in for it,
	// by their names.
	StateExchange = "shardmq.state"
	// StateQueue holds the state; the leader is its exclusive consumer.
	StateQueue = "shardmq.state"
	// MemberQueue and a proxy's ID name a queue that is there while the proxy is
	// connected.
	MemberQueue = "shardmq.member."
	// InboxQueue begins the name of a queue bound to MembersExchange.
	InboxQueue = "shardmq.inbox."
)
