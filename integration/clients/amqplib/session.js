'use strict';
// The client matrix's session with amqplib: session.js URL EXCHANGE QUEUE KIND [restart].

const assert = require('node:assert');
const { setTimeout: setTimeoutAsync } = require('node:timers/promises');
const amqplib = require('amqplib');

const messages = 20;
const patience = 60000; // ms for the whole session: only something that is broken takes so long
const [url, exchange, queue, kind, only] = process.argv.slice(2);

// Inbox turns a consumer's callbacks into awaited messages.
class Inbox {
  constructor() {
    this.messages = [];
    this.waiting = [];
    this.push = (message) => {
      const resolve = this.waiting.shift();
      if (resolve) resolve(message);
      else this.messages.push(message);
    };
  }

  async next() {
    return this.messages.length > 0 ? this.messages.shift() : new Promise((resolve) => this.waiting.push(resolve));
  }
}

let connection, channel;

async function connect() {
  connection = await amqplib.connect(url);
  channel = await connection.createConfirmChannel();
  channel.on('return', (message) => { throw new Error(`returned: ${JSON.stringify(message.fields)}`); });
}

// publish resolves when the broker has confirmed the message.
function publish(key, body) {
  return new Promise((resolve, reject) => {
    channel.publish(exchange, key, Buffer.from(body), { mandatory: true }, (error) => (error ? reject(error) : resolve()));
  });
}

const steps = {
  async declare() {
    await connect();
    await channel.assertExchange(exchange, kind, { durable: true });
    assert.deepEqual(await channel.assertQueue(queue, { durable: true }), { queue, messageCount: 0, consumerCount: 0 });
    await channel.bindQueue(queue, exchange, 'any');
    return 'exchange, queue and binding';
  },

  async confirm() {
    for (let i = 0; i < messages; i++) await publish(`key.${i}`, `message ${i}`);
    return `${messages} messages`;
  },

  async consume() {
    const inbox = new Inbox();
    const seen = new Set();
    await channel.prefetch(10);
    await channel.consume(queue, inbox.push);
    while (seen.size < messages) {
      const message = await inbox.next();
      const body = message.content.toString();
      assert(!seen.has(body), `${body} came twice`);
      assert.deepEqual([message.fields.exchange, message.fields.routingKey], [exchange, `key.${body.split(' ')[1]}`]);
      seen.add(body);
      channel.ack(message);
    }
    return `${messages} messages, each once`;
  },

  // ack closes the channel: what had not been acknowledged would be in the queue again.
  async ack() {
    await channel.close();
    channel = await connection.createConfirmChannel();
    assert.deepEqual(await channel.checkQueue(queue), { queue, messageCount: 0, consumerCount: 0 });
    return 'nothing left';
  },

  async nack() {
    const inbox = new Inbox();
    const { consumerTag } = await channel.consume(queue, inbox.push);
    await publish('again', 'again');
    for (const redelivered of [false, true]) {
      const message = await inbox.next();
      assert.deepEqual([message.content.toString(), message.fields.redelivered], ['again', redelivered]);
      channel.nack(message, false, !redelivered);
    }
    await channel.cancel(consumerTag);
    return 'redelivered, then dropped';
  },

  async get() {
    for (let i = 0; i < 3; i++) await publish(`${i}`, `get ${i}`);
    for (let i = 0; i < 3; i++) {
      const message = await channel.get(queue);
      assert.equal(message.content.toString(), `get ${message.fields.routingKey}`);
      channel.ack(message);
    }
    assert.equal(await channel.get(queue), false);
    return '3 messages, then empty';
  },

  async rpc() {
    const replyTo = 'amq.rabbitmq.reply-to';
    const [requests, replies] = [new Inbox(), new Inbox()];
    const asker = await connection.createChannel();
    await asker.consume(replyTo, replies.push, { noAck: true });
    const { consumerTag } = await channel.consume(queue, requests.push);
    asker.publish(exchange, 'rpc', Buffer.from('question'), { replyTo, correlationId: 'call' });
    const { properties, ...request } = await requests.next();
    assert.equal(request.content.toString(), 'question');
    channel.publish('', properties.replyTo, Buffer.from('answer'), { correlationId: properties.correlationId });
    channel.ack(request);
    const reply = await replies.next();
    assert.deepEqual([reply.properties.correlationId, reply.content.toString()], ['call', 'answer']);
    await channel.cancel(consumerTag);
    await asker.close();
    return 'direct reply-to';
  },

  async error() {
    const other = await connection.createChannel();
    const closed = new Promise((resolve) => other.once('error', resolve));
    await assert.rejects(other.checkQueue('missing'));
    const refused = await closed;
    await channel.checkQueue(queue);
    return `${refused.code} ${refused.message.match(/"(.*)"/)[1]}; the connection goes on`;
  },

  async reconnect() {
    const lost = new Promise((resolve) => connection.once('close', resolve)); // amqplib sees no error in a forced close
    console.log('wait reconnect');
    const error = await lost;
    await connect();
    await publish('0', 'get 0');
    assert.equal((await channel.get(queue, { noAck: true })).content.toString(), 'get 0');
    await connection.close();
    return `after ${error.code} ${error.message.match(/"(.*)"/)[1]}`;
  },
};

// connectAgain tries until somebody listens.
async function connectAgain() {
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      if (error.code !== 'ECONNREFUSED') throw error;
      await setTimeoutAsync(100);
    }
  }
}

// restart: what it is connected to ends, and is started again; gets what was published meanwhile.
async function restart() {
  const lost = new Promise((resolve) => connection.once('close', resolve));
  console.log('wait restart');
  const error = await lost;
  await connectAgain();
  const inbox = new Inbox();
  await channel.consume(queue, inbox.push);
  const message = await inbox.next();
  assert.equal(message.content.toString(), 'meanwhile');
  channel.ack(message);
  await channel.close(); // amqplib may say connection.close before what channels have to say
  await connection.close();
  return `after ${error.code} ${error.message.match(/"(.*)"/)[1]}`;
}

async function main() {
  console.log('version', require('../node/package-lock.json').packages['node_modules/amqplib'].version);
  setTimeout(() => { throw new Error('it takes too long'); }, patience).unref();
  for (const [name, step] of Object.entries(only ? { declare: steps.declare, restart } : steps)) console.log(`ok ${name}: ${await step()}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
