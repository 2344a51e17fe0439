'use strict';
// Sessions whose transcript must be the same directly and through the proxy: every line is something amqplib saw.

const amqplib = require('amqplib');
const { Inbox, attempt, run, show, showMessage } = require('./common');

// publish resolves when the broker has confirmed the message.
function publish(channel, exchange, key, body, options = {}) {
  return new Promise((resolve, reject) => {
    channel.publish(exchange, key, body, { mandatory: true, ...options }, (error) => (error ? reject(error) : resolve()));
  });
}

const everyProperty = {
  contentType: 'image/png',
  contentEncoding: 'identity',
  headers: {
    number: 1, big: 2 ** 40, float: 1.5, yes: true, nothing: null, text: 'naïve ☃', list: [1, 'two', { three: 3 }],
    table: { deep: { deeper: {} } }, bytes: Buffer.from([0, 255, 206]),
    when: { '!': 'timestamp', value: 1000000000 }, money: { '!': 'decimal', value: { places: 2, digits: 1999 } },
    small: { '!': 'int8', value: -5 }, short: { '!': 'int16', value: -500 }, single: { '!': 'float', value: 0.5 },
  },
  deliveryMode: 2, priority: 7, correlationId: 'correlation', replyTo: 'reply', expiration: '600000',
  messageId: 'message', timestamp: 1500000000, type: 'kind', userId: 'guest', appId: 'session', clusterId: 'cluster',
};

// work publishes, consumes, confirms and calls on one exchange and the queue of the same name.
async function work(url, exchange, kind) {
  const connection = await amqplib.connect(url);
  const channel = await connection.createConfirmChannel();
  show('exchange', await channel.assertExchange(exchange, kind, { durable: true }));
  show('queue', await channel.assertQueue(exchange, { durable: true }));
  show('bind', await channel.bindQueue(exchange, exchange, 'any'));
  show('check', await channel.checkQueue(exchange));
  show('check exchange', await channel.checkExchange(exchange));
  await channel.prefetch(10);
  const inbox = new Inbox();
  show('consume', await channel.consume(exchange, inbox.push, { consumerTag: 'worker' }));
  for (const size of [0, 1, 2, 1000, 131063, 131064, 300000]) {
    await publish(channel, exchange, `key.${size}`, Buffer.alloc(size, 'z'));
    const message = await inbox.next();
    showMessage('delivery', message);
    channel.ack(message);
  }
  await publish(channel, exchange, '', Buffer.from('properties'), everyProperty);
  const first = await inbox.next();
  showMessage('properties', first);
  channel.nack(first);
  const again = await inbox.next();
  showMessage('redelivery', again);
  channel.reject(again, false);
  await call(connection, channel, exchange, inbox);
  show('cancel', await channel.cancel('worker'));
  show('empty', await channel.get(exchange));
  await publish(channel, exchange, 'left', Buffer.from('one'));
  showMessage('get', await channel.get(exchange, { noAck: true }));
  await publish(channel, exchange, 'left', Buffer.from('two'));
  show('purge', await channel.purgeQueue(exchange));
  await connection.close();
}

// call asks by direct reply-to: the reply comes back to the channel that asked.
async function call(connection, server, exchange, inbox) {
  const client = await connection.createChannel();
  const replies = new Inbox();
  await client.consume('amq.rabbitmq.reply-to', replies.push, { noAck: true });
  client.publish(exchange, 'rpc', Buffer.from('question'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: 'call-1' });
  const request = await inbox.next();
  show('request', request.content);
  const { replyTo, correlationId } = request.properties;
  await publish(server, '', replyTo, Buffer.from('answer'), { mandatory: false, correlationId });
  server.ack(request);
  const reply = await replies.next();
  show('reply', [reply.properties.correlationId, reply.content]);
  await client.close();
}

// plain does what has nothing to do with sharding.
async function plain(url) {
  const connection = await amqplib.connect(url);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  show('server-named', queue);
  const returns = new Inbox();
  channel.on('return', returns.push);
  await publish(channel, 'amq.direct', 'nobody', Buffer.from('back'));
  showMessage('return', await returns.next());
  for (const size of [4087, 4088, 131063, 131064, 131065, 262128, 1 << 20]) {
    await publish(channel, '', queue, Buffer.alloc(size, 'large'));
    showMessage('large', await channel.get(queue, { noAck: true }));
  }
  await cancelNotify(connection);
  await errors(connection, queue);
  const other = await amqplib.connect(url);
  await attempt('exclusive elsewhere', other, (c) => c.checkQueue(queue));
  await connection.close();
  await attempt('exclusive gone', other, (c) => c.checkQueue(queue));
  await other.close();
}

async function cancelNotify(connection) {
  const channel = await connection.createChannel();
  await channel.assertQueue('going', { exclusive: true });
  const inbox = new Inbox();
  await channel.consume('going', inbox.push);
  show('delete', await channel.deleteQueue('going'));
  show('cancelled', await inbox.next());
  await channel.close();
}

async function errors(connection, queue) {
  await attempt('consume missing', connection, (c) => c.consume('missing', () => {}));
  await attempt('get missing', connection, (c) => c.get('missing'));
  await attempt('check missing', connection, (c) => c.checkExchange('missing'));
  await attempt('purge missing', connection, (c) => c.purgeQueue('missing'));
  await attempt('reserved', connection, (c) => c.assertQueue('amq.mine'));
  await attempt('other arguments', connection, (c) => c.assertQueue(queue, { exclusive: true, maxLength: 5 }));
  await attempt('other type', connection, (c) => c.assertExchange('amq.topic', 'direct'));
  await attempt('publish missing', connection, async (c, closed) => {
    c.publish('missing', 'k', Buffer.from('lost'));
    throw await closed;
  });
  await attempt('ack twice', connection, async (c, closed) => {
    c.ack({ fields: { deliveryTag: 99 } });
    throw await closed;
  });
}

run({ work, plain });
