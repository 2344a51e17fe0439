package proxy

import (
	"encoding/binary"

	"github.com/shardmq/shardmq/frames"
)

// playSeed is an input of FuzzSession.
type playSeed struct {
	setup byte
	input []byte
}

// script puts together an input.
type playScript struct{ b []byte }

// say has an end send frames.
func (w *playScript) say(what byte, wire []byte) *playScript {
	for len(wire) > 0 {
		fr, err := frames.Next(wire, 0)
		if err != nil {
			panic(err)
		}
		typ := map[byte]byte{frames.TypeMethod: 0, frames.TypeHeader: 1, frames.TypeBody: 2, frames.TypeHeartbeat: 3}[fr.Type()]
		w.b = append(w.b, what, typ, byte(fr.Channel()))
		w.b = binary.BigEndian.AppendUint16(w.b, uint16(len(fr.Payload())))
		w.b = append(w.b, fr.Payload()...)
		wire = wire[len(fr):]
	}
	return w
}

func (w *playScript) client(id uint16, m frames.Method) *playScript {
	return w.say(playClient, frames.AppendMethod(nil, id, m))
}

func (w *playScript) broker(id uint16, m frames.Method) *playScript {
	return w.say(playBroker, frames.AppendMethod(nil, id, m))
}

func (w *playScript) do(b ...byte) *playScript {
	w.b = append(w.b, b...)
	return w
}

// reply has the broker answer n requests on channel 1.
func (w *playScript) reply(n int) *playScript {
	for range n {
		w.do(playReply, 1, 1)
	}
	return w
}

func (w *playScript) publish(exchange string, size int) *playScript {
	return w.say(playClient, publish(1, exchange, pattern(size)))
}

// large has an end send a message with a body of two frames of that size.
func (w *playScript) large(what byte, m frames.Method, size uint16) *playScript {
	w.say(what, announcing(frames.AppendMethod(nil, 1, m), 2*int(size)))
	body := byte(playClientBody)
	if what == playBroker {
		body = playBrokerBody
	}
	for range 2 {
		w.do(body, 1, byte(size>>8), byte(size))
	}
	return w
}

func playSeeds() []playSeed {
	begin := func() *playScript { return &playScript{} }
	greeting := begin().broker(0, startMethod).client(0, startOk("consumer_cancel_notify")).broker(0, tuneMethod).
		client(0, &frames.ConnectionTuneOk{ChannelMax: 2047, FrameMax: 8192}).client(0, &frames.ConnectionOpen{VirtualHost: "/"}).
		broker(0, &frames.ConnectionOpenOk{}).client(1, &frames.ChannelOpen{}).do(playReply, 1, 0).
		client(0, &frames.ConnectionClose{ReplyCode: 200}).do(playReply, 0, 0)
	publishing := begin().publish(testExchange, 3).publish("other", 300).publish(testExchange, 0).do(playJoin).publish(testExchange, 20).
		do(playCut, 0, 9).publish(testExchange, 20).do(playCut, 0, 30).client(1, &frames.ConfirmSelect{}).reply(1).
		say(playClient, content(1, &frames.BasicPublish{RoutingKey: testExchange}, []byte("spread"))).
		broker(1, &frames.BasicAck{DeliveryTag: 1}).large(playClient, &frames.BasicPublish{Exchange: testExchange, RoutingKey: "a.b"}, 4000)
	consuming := begin().client(1, &frames.BasicQos{PrefetchCount: 9}).reply(1).client(1, &frames.BasicConsume{Queue: testExchange, ConsumerTag: "c"}).
		reply(9).do(playDeliver, 1, 0, playDeliver, 1, 1, playDeliver, 1, 200, playDeliver, 1, 3).client(1, &frames.BasicAck{DeliveryTag: 2, Multiple: true}).
		do(playPause, 1, playReply, 1, 0, playReply, 1, 0).client(1, &frames.BasicCancel{ConsumerTag: "c"}).reply(4).
		client(1, &frames.ChannelClose{ReplyCode: 200}).do(playReply, 1, 0).client(1, &frames.ChannelOpen{}).reply(1).publish("other", 4)
	moving := begin().client(1, &frames.BasicConsume{Queue: testExchange, ConsumerTag: "c"}).reply(4).do(playOther, playPause, 0).reply(3).
		do(playDeliver, 1, 0, playDeliver, 1, 1).client(2, &frames.BasicConsume{Queue: testExchange}).do(playPause, 0).reply(3).
		do(playReply, 2, 0, playReply, 2, 0, playOther, playOther, playPause, 3).reply(3).client(1, &frames.BasicRecover{Requeue: true}).reply(3).
		say(playClient, content(1, &frames.BasicPublish{Exchange: testExchange, RoutingKey: "a.b.c"}, []byte("three words"))).
		client(1, &frames.ChannelClose{ReplyCode: 200}).do(playReply, 1, 0, playPause, 3)
	beating := begin().broker(0, startMethod).client(0, startOk()).broker(0, &frames.ConnectionTune{ChannelMax: 7, FrameMax: 8192, Heartbeat: 1}).
		client(0, &frames.ConnectionTuneOk{ChannelMax: 7, FrameMax: 4096, Heartbeat: 1}).client(0, &frames.ConnectionOpen{VirtualHost: "/"}).
		broker(0, &frames.ConnectionOpenOk{}).do(playPause, 2, playPause, 2, playPause, 2, playPause, 2)
	composing := begin().client(1, &frames.TxSelect{}).reply(1).client(1, &frames.QueueDeclare{Queue: testExchange, Passive: true}).
		client(1, &frames.BasicGet{Queue: testExchange}).do(playReply, 1, 9).client(1, &frames.BasicAck{DeliveryTag: 1}).client(1, &frames.TxCommit{}).
		reply(2).client(1, &frames.QueuePurge{Queue: testExchange}).reply(4).client(1, &frames.QueueDelete{Queue: testExchange}).
		do(playComply, 1, 0, playReply, 1, 0).client(2, &frames.ExchangeDeclare{Exchange: testExchange, Type: "x-modulus-hash", Durable: true}).
		do(playReply, 2, 0, playPause, 3, playGoAway, playComply, 0, 0, playReply, 0, 0)
	delivering := begin().client(1, &frames.BasicConsume{Queue: "q", ConsumerTag: "c", NoAck: true}).reply(1).
		large(playBroker, &frames.BasicDeliver{ConsumerTag: "c", DeliveryTag: 1, Exchange: "x"}, 30000).do(playClientStalls).
		large(playBroker, &frames.BasicDeliver{ConsumerTag: "c", DeliveryTag: 2, Exchange: "x"}, 60000).publish("other", 5).do(playPause, 3, playClientStalls).
		say(playBroker, content(1, &frames.BasicReturn{ReplyCode: 312, Exchange: "other"}, []byte("back"))).
		broker(1, &frames.ChannelClose{ReplyCode: 404}).publish("other", 5).do(playComply, 1, 0).
		broker(0, &frames.ConnectionClose{ReplyCode: 320}).do(playComply, 0, 0)
	blocking := begin().broker(0, &frames.ConnectionBlocked{Reason: "alarm"}).client(1, &frames.BasicConsume{Queue: testExchange}).publish("other", 3).
		do(playBrokerStalls).large(playClient, &frames.BasicPublish{Exchange: "other"}, 40000).do(playPause, 3, playBrokerStalls).
		broker(0, &frames.ConnectionUnblocked{}).reply(5).broker(1, &frames.BasicCancel{ConsumerTag: "~0", NoWait: true}).do(playPause, 2).reply(3)
	rubbish := begin().publish(testExchange, 3).do(playClientOctets, 8, 1, 0, 1, 0, 0, 0, 9, 'x')
	noEnd := begin().say(playClient, announcing(publish(1, "x", nil), 3)).do(playClientOctets, 11, 3, 0, 1, 0, 0, 0, 3, 'a', 'b', 'c', 0)
	brokerRubbish := begin().publish("other", 3).do(playBrokerOctets, 8, 'H', 'T', 'T', 'P', '/', '1', '.', '1')
	brokerBoasts := begin().do(playBrokerOctets, 8, 1, 0, 1, 0, 0xff, 0xff, 0xf0, 0)
	alone := begin().do(playClientOctets, 8).do(frames.ProtocolHeader[:]...).client(0, startOk()).do(playComply, 0, 0)

	var seeds []playSeed
	for _, w := range []*playScript{publishing, consuming, moving, composing, delivering, blocking, rubbish, noEnd, brokerRubbish, brokerBoasts} {
		for ending := range byte(playEndings) {
			seeds = append(seeds, playSeed{playHandshake + ending*playEnding, w.b})
		}
		seeds = append(seeds, playSeed{playHandshake | playSmall, w.b}, playSeed{playHandshake | playSmall | playPlain, w.b})
	}
	seeds = append(seeds, playSeed{0, greeting.b}, playSeed{0, beating.b}, playSeed{playPlain + brokerCloses*playEnding, greeting.b}, playSeed{playAlone, alone.b})
	for _, header := range []string{"GET / HTTP/1.1\r\n\r\n", "AMQP\x03\x01\x00\x00", string(healthHeader[:]), "AMQP\x01\x01\x00\x09\x01\x00\x00"} {
		seeds = append(seeds, playSeed{playAlone, begin().do(playClientOctets, byte(len(header))).do([]byte(header)...).b})
	}
	return seeds
}
