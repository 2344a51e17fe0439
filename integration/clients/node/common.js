'use strict';
// What the amqplib programs share.

const crypto = require('node:crypto');

function show(label, value) {
  console.log(`${label}: ${value === undefined ? '' : canonical(value)}`);
}

// canonical is JSON with sorted keys; buffers become their length and digest.
function canonical(value) {
  if (Buffer.isBuffer(value)) {
    const digest = crypto.createHash('md5').update(value).digest('hex');
    return `${value.length} bytes ${digest}`;
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(', ')}]`;
  if (value !== null && typeof value === 'object') {
    const fields = Object.keys(value).filter((k) => value[k] !== undefined).sort();
    return `{${fields.map((k) => `${k}=${canonical(value[k])}`).join(', ')}}`;
  }
  return typeof value === 'string' ? JSON.stringify(value) : String(value);
}

function showMessage(label, message) {
  show(label, message === null || message === false ? message : [message.fields, message.properties, message.content]);
}

// Inbox turns a consumer's callbacks into awaited messages.
class Inbox {
  constructor() {
    this.messages = [];
    this.waiting = [];
    this.push = this.push.bind(this);
  }

  push(message) {
    const resolve = this.waiting.shift();
    if (resolve) resolve(message);
    else this.messages.push(message);
  }

  next() {
    if (this.messages.length > 0) return Promise.resolve(this.messages.shift());
    return new Promise((resolve) => this.waiting.push(resolve));
  }
}

// attempt runs call on a channel of its own and shows how the broker ends it.
async function attempt(label, connection, call) {
  const channel = await connection.createChannel();
  const closed = new Promise((resolve) => channel.once('error', resolve));
  try {
    show(label, await call(channel, closed));
    await channel.close();
  } catch (error) {
    show(label, error.message);
  }
}

function run(commands) {
  const [name, ...args] = process.argv.slice(2);
  if (!commands[name]) {
    console.error(`usage: ${process.argv[1]} ${Object.keys(commands).join('|')} ARGS...`);
    process.exit(2);
  }
  commands[name](...args).catch((error) => {
    console.error(error);
    process.exit(1);
  });
}

module.exports = { Inbox, attempt, run, show, showMessage };
