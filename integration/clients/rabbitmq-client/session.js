'use strict';
// The client matrix's session with rabbitmq-client: session.js URL EXCHANGE QUEUE KIND [restart].

const assert = require('node:assert');
const { once } = require('node:events');
const { Connection, ConsumerStatus } = require('rabbitmq-client');

const messages = 20;
const patience = 60000; // ms for the whole session: only something that is broken takes so long
const [url, exchange, queue, kind, only] = process.argv.slice(2);

const rabbit = new Connection(url);
let publisher;

function publish(routingKey, body) {
  return publisher.send({ exchange, routingKey, mandatory: true }, body);
}

// consumer starts one and resolves when it is ready.
async function consumer(handler) {
  const sub = rabbit.createConsumer({ queue, queueOptions: { durable: true }, qos: { prefetchCount: 10 } }, handler);
  sub.on('error', () => {}); // says that the connection was lost
  await once(sub, 'ready');
  return sub;
}

const steps = {
  async declare() {
    await rabbit.exchangeDeclare({ exchange, type: kind, durable: true });
    const ok = await rabbit.queueDeclare({ queue, durable: true });
    assert.deepEqual([ok.queue, ok.messageCount, ok.consumerCount], [queue, 0, 0]);
    await rabbit.queueBind({ queue, exchange, routingKey: 'any' });
    return 'exchange, queue and binding';
  },

  async confirm() {
    publisher = rabbit.createPublisher({ confirm: true, maxAttempts: 5 });
    publisher.on('basic.return', (message) => { throw new Error(`returned: ${message.replyText}`); });
    for (let i = 0; i < messages; i++) await publish(`key.${i}`, `message ${i}`);
    return `${messages} messages`;
  },

  async consume() {
    const seen = new Set();
    let sub;
    await new Promise((resolve, reject) => {
      consumer(async (message) => {
        const number = message.body.split(' ')[1];
        if (seen.has(number) || message.exchange !== exchange || message.routingKey !== `key.${number}`) {
          reject(new Error(`came: ${JSON.stringify(message)}`));
        }
        seen.add(number);
        if (seen.size === messages) resolve();
      }).then((ready) => { sub = ready; }, reject);
    });
    await sub.close();
    return `${messages} messages, each once`;
  },

  // ack: the consumer's channel is closed, what had not been acknowledged would be in the queue again.
  async ack() {
    const left = await rabbit.queueDeclare({ queue, passive: true });
    assert.deepEqual([left.messageCount, left.consumerCount], [0, 0]);
    return 'nothing left';
  },

  async nack() {
    const flags = [];
    let finish;
    const finished = new Promise((resolve) => { finish = resolve; });
    const sub = await consumer(async (message) => {
      flags.push(message.redelivered);
      if (flags.length === 2) finish();
      return message.redelivered ? ConsumerStatus.DROP : ConsumerStatus.REQUEUE;
    });
    await publish('again', 'again');
    await finished;
    await sub.close();
    assert.deepEqual(flags, [false, true]);
    return 'redelivered, then dropped';
  },

  async get() {
    for (let i = 0; i < 3; i++) await publish(`${i}`, `get ${i}`);
    const channel = await rabbit.acquire();
    for (let i = 0; i < 3; i++) {
      const message = await channel.basicGet(queue);
      assert.equal(message.body, `get ${message.routingKey}`);
      channel.basicAck(message);
    }
    assert.equal(await channel.basicGet(queue), undefined);
    await channel.close();
    return '3 messages, then empty';
  },

  async rpc() {
    const client = rabbit.createRPCClient({ confirm: true, timeout: patience });
    const sub = await consumer(async (message, reply) => {
      assert.equal(message.body, 'question');
      await reply('answer');
    });
    assert.equal((await client.send({ exchange, routingKey: 'rpc' }, 'question')).body, 'answer');
    await client.close();
    await sub.close();
    return 'direct reply-to';
  },

  async error() {
    const channel = await rabbit.acquire();
    const refused = await channel.queueDeclare({ queue: 'missing', passive: true }).catch((error) => error);
    assert.equal(refused.code, 'NOT_FOUND');
    await rabbit.queueDeclare({ queue, passive: true });
    return `404 ${refused.code} - ${refused.message.replace(/^.*NOT_FOUND - /, '')}; the connection goes on`;
  },

  // reconnect: the library connects again, and its publisher and consumer go on, by themselves.
  async reconnect() {
    let came;
    const received = new Promise((resolve) => { came = resolve; });
    const sub = await consumer(async (message) => came(message.body));
    const lost = new Promise((resolve) => rabbit.once('error', resolve));
    const back = new Promise((resolve) => rabbit.once('connection', resolve));
    console.log('wait reconnect');
    const error = await lost;
    await back;
    await publish('after', 'after');
    assert.equal(await received, 'after');
    await sub.close();
    await publisher.close();
    await rabbit.close();
    return forced(error);
  },
};

function forced(error) {
  assert.equal(error.code, 'CONNECTION_FORCED');
  return `after 320 ${error.code} - ${error.message.replace(/^.*CONNECTION_FORCED - /, '')}`;
}

// restart: what it is connected to ends, and is started again; its consumer goes on by itself and gets what was published meanwhile.
async function restart() {
  let came;
  const received = new Promise((resolve) => { came = resolve; });
  const errors = [];
  rabbit.on('error', (error) => errors.push(error)); // then that nobody listens
  const sub = await consumer(async (message) => came(message.body));
  console.log('wait restart');
  assert.equal(await received, 'meanwhile');
  await sub.close();
  await rabbit.close();
  return forced(errors[0]);
}

async function main() {
  console.log('version', require('../node/package-lock.json').packages['node_modules/rabbitmq-client'].version);
  setTimeout(() => { throw new Error('it takes too long'); }, patience).unref();
  for (const [name, step] of Object.entries(only ? { declare: steps.declare, restart } : steps)) console.log(`ok ${name}: ${await step()}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
