package control

import amqp "github.com/rabbitmq/amqp091-go"

// foreign reports whether a message is none of a proxy's, and logs the first one
// that is not. Any user with rights on the exchanges may publish there, and what
// is believed there decides who consumes what. So proxies set the property
// user-id, which RabbitMQ lets pass only with the publisher's own name in it
// (validated user-id), and believe only what has their own: the proxies of a
// virtual host log in as the same user.
func (t *Transport) foreign(d amqp.Delivery) bool {
	if d.UserId == t.o.Username {
		return false
	}
	if t.warned.CompareAndSwap(false, true) && t.o.Log != nil {
		t.o.Log.Warn("messages to the proxies from another user are ignored: proxies of one virtual host have to use the same control user",
			"user", d.UserId, "exchange", d.Exchange, "vhost", t.o.Vhost)
	}
	return true
}
