package router

import (
	"strings"

	"github.com/shardmq/shardmq/frames"
	"github.com/shardmq/shardmq/shards"
)

// aShard is how RabbitMQ's texts name a shard.
const aShard = "'sharding: "

// aboutShard words an error of the broker's about a shard so that it names the pseudo-queue too, when that is one the channel has to do
// with.
func (ch *channel) aboutShard(text string) string {
	_, shard, found := strings.Cut(text, aShard)
	if !found {
		return text
	}
	if o := ch.op; o != nil && o.exchange != nil {
		return naming(text, o.exchange)
	}
	for _, tag := range sortedTags(ch) {
		if x := ch.consumers[tag].x; strings.HasPrefix(shard, x.Name+" - ") {
			return naming(text, x)
		}
	}
	return text
}

func naming(text string, x *shards.Exchange) string {
	return text + " (pseudo-queue '" + x.Name + "')"
}

// closeWords is the broker's connection.close, worded likewise.
func (c *Conn) closeWords(f frames.Frame) frames.Frame {
	var m frames.ConnectionClose
	if m.Decode(f.Args()) != nil || !strings.Contains(m.ReplyText, aShard) {
		return f
	}
	for _, ch := range c.chans {
		if ch == nil {
			continue
		}
		if text := ch.aboutShard(m.ReplyText); text != m.ReplyText {
			m.ReplyText = replyText(m.ReplyCode, text)
			return frames.AppendMethod(nil, 0, &m)
		}
	}
	return f
}

// replyText is a text that begins with the code's name, shortened to what a reply text may be.
func replyText(code uint16, text string) string {
	e := frames.Exception{Code: frames.Code(code)}
	e.Text = trimName(text, e.Code)
	return e.ReplyText()
}
