/* The client matrix's session with librabbitmq: session URL EXCHANGE QUEUE KIND. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <amqp.h>
#include <amqp_tcp_socket.h>

enum { MESSAGES = 20, CHANNEL = 1 };

/* For every wait: only something that is broken takes so long. */
static struct timeval patience = {60, 0};

static char *url;
static const char *exchange, *queue, *kind;
static amqp_connection_state_t conn;
static char *parsed; /* the URL, cut into pieces that info points to */
static struct amqp_connection_info info;

static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

static void check(int condition, const char *text) {
  if (!condition) fail("%s", text);
}

static int is(amqp_bytes_t bytes, const char *text) {
  return bytes.len == strlen(text) && memcmp(bytes.bytes, text, bytes.len) == 0;
}

/* A close of a channel or connection as "CODE TEXT". */
static void explain(const amqp_method_t *method, char *out, size_t size) {
  if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
    const amqp_channel_close_t *m = method->decoded;
    snprintf(out, size, "%d %.*s", m->reply_code, (int)m->reply_text.len, (char *)m->reply_text.bytes);
  } else if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
    const amqp_connection_close_t *m = method->decoded;
    snprintf(out, size, "%d %.*s", m->reply_code, (int)m->reply_text.len, (char *)m->reply_text.bytes);
  } else {
    snprintf(out, size, "method %#x", method->id);
  }
}

static void ok(const char *what) {
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);
  char text[300] = "";
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
  if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) explain(&reply.reply, text, sizeof text);
  fail("%s: %s", what, *text ? text : amqp_error_string2(reply.library_error));
}

static void open_channel(amqp_channel_t channel) {
  amqp_channel_open(conn, channel);
  ok("channel.open");
}

static void connect_again(void) {
  free(parsed);
  parsed = strdup(url);
  check(amqp_parse_url(parsed, &info) == AMQP_STATUS_OK, "the URL is wrong");
  conn = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(conn);
  check(socket && amqp_socket_open(socket, info.host, info.port) == AMQP_STATUS_OK, "no connection");
  amqp_rpc_reply_t reply = amqp_login(conn, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password);
  check(reply.reply_type == AMQP_RESPONSE_NORMAL, "login");
  open_channel(CHANNEL);
  amqp_confirm_select(conn, CHANNEL);
  ok("confirm.select");
}

static amqp_queue_declare_ok_t *declare_queue(amqp_channel_t channel, const char *name, int passive) {
  return amqp_queue_declare(conn, channel, amqp_cstring_bytes(name), passive, !passive, 0, 0, amqp_empty_table);
}

static void declare(void) {
  connect_again();
  amqp_exchange_declare(conn, CHANNEL, amqp_cstring_bytes(exchange), amqp_cstring_bytes(kind), 0, 1, 0, 0, amqp_empty_table);
  ok("exchange.declare");
  amqp_queue_declare_ok_t *declared = declare_queue(CHANNEL, queue, 0);
  ok("queue.declare");
  check(is(declared->queue, queue) && declared->message_count == 0, "another queue");
  amqp_queue_bind(conn, CHANNEL, amqp_cstring_bytes(queue), amqp_cstring_bytes(exchange), amqp_cstring_bytes("any"), amqp_empty_table);
  ok("queue.bind");
  puts("ok declare: exchange, queue and binding");
}

static void send_to(const char *to, amqp_bytes_t key, const char *body, amqp_basic_properties_t *properties) {
  int status = amqp_basic_publish(conn, CHANNEL, amqp_cstring_bytes(to), key, 1, 0, properties, amqp_cstring_bytes(body));
  check(status == AMQP_STATUS_OK, amqp_error_string2(status));
  amqp_frame_t frame;
  status = amqp_simple_wait_frame_noblock(conn, &frame, &patience);
  check(status == AMQP_STATUS_OK, amqp_error_string2(status));
  if (frame.frame_type != AMQP_FRAME_METHOD || frame.payload.method.id != AMQP_BASIC_ACK_METHOD) {
    fail("%s: no confirm, but a frame of type %d, method %#x", body, frame.frame_type, frame.payload.method.id);
  }
}

/* Returns when the message is confirmed, and nothing else may come before that. */
static void publish(const char *key, const char *body) {
  send_to(exchange, amqp_cstring_bytes(key), body, NULL);
}

static void confirm(void) {
  char key[20], body[20];
  for (int i = 0; i < MESSAGES; i++) {
    snprintf(key, sizeof key, "key.%d", i);
    snprintf(body, sizeof body, "message %d", i);
    publish(key, body);
  }
  printf("ok confirm: %d messages\n", MESSAGES);
}

/* Takes the next message; the confirm of an answer may come before it. */
static void receive(amqp_envelope_t *envelope) {
  amqp_rpc_reply_t reply = amqp_consume_message(conn, envelope, &patience, 0);
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION && reply.library_error == AMQP_STATUS_UNEXPECTED_STATE) {
    amqp_frame_t frame;
    check(amqp_simple_wait_frame(conn, &frame) == AMQP_STATUS_OK && frame.payload.method.id == AMQP_BASIC_ACK_METHOD, "another method");
    reply = amqp_consume_message(conn, envelope, &patience, 0);
  }
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail("no message: %s", amqp_error_string2(reply.library_error));
}

static void subscribe(const char *from, const char *tag, int no_ack) {
  amqp_basic_consume(conn, CHANNEL, amqp_cstring_bytes(from), amqp_cstring_bytes(tag), 0, no_ack, 0, amqp_empty_table);
  ok("basic.consume");
}

static void cancel(const char *tag) {
  amqp_basic_cancel(conn, CHANNEL, amqp_cstring_bytes(tag));
  ok("basic.cancel");
}

static void consume(void) {
  int seen[MESSAGES] = {0};
  amqp_basic_qos(conn, CHANNEL, 0, 10, 0);
  ok("basic.qos");
  subscribe(queue, "worker", 0);
  for (int i = 0; i < MESSAGES; i++) {
    amqp_envelope_t envelope;
    char body[20] = "", key[20];
    int number = -1;
    receive(&envelope);
    memcpy(body, envelope.message.body.bytes, envelope.message.body.len < 19 ? envelope.message.body.len : 19);
    check(sscanf(body, "message %d", &number) == 1 && number >= 0 && number < MESSAGES && !seen[number]++, body);
    snprintf(key, sizeof key, "key.%d", number);
    check(is(envelope.exchange, exchange) && is(envelope.routing_key, key), "another exchange or key");
    amqp_basic_ack(conn, CHANNEL, envelope.delivery_tag, 0);
    amqp_destroy_envelope(&envelope);
  }
  printf("ok consume: %d messages, each once\n", MESSAGES);
}

/* Closes the channel: what had not been acknowledged would be in the queue again. */
static void ack(void) {
  amqp_channel_close(conn, CHANNEL, AMQP_REPLY_SUCCESS);
  open_channel(CHANNEL);
  amqp_confirm_select(conn, CHANNEL);
  ok("confirm.select");
  amqp_queue_declare_ok_t *left = declare_queue(CHANNEL, queue, 1);
  ok("queue.declare");
  check(left->message_count == 0 && left->consumer_count == 0, "something is left");
  puts("ok ack: nothing left");
}

static void nack(void) {
  publish("again", "again");
  subscribe(queue, "worker", 0);
  for (int redelivered = 0; redelivered < 2; redelivered++) {
    amqp_envelope_t envelope;
    receive(&envelope);
    check(is(envelope.message.body, "again") && !!envelope.redelivered == redelivered, "another message, or redelivered is wrong");
    amqp_basic_nack(conn, CHANNEL, envelope.delivery_tag, 0, !redelivered);
    amqp_destroy_envelope(&envelope);
  }
  cancel("worker");
  puts("ok nack: redelivered, then dropped");
}

/* Gets a message into body and returns whether there was one. */
static int fetch(const char *from, int no_ack, char *body, size_t size) {
  amqp_rpc_reply_t reply = amqp_basic_get(conn, CHANNEL, amqp_cstring_bytes(from), no_ack);
  check(reply.reply_type == AMQP_RESPONSE_NORMAL, "basic.get");
  if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return 0;
  amqp_basic_get_ok_t *got = reply.reply.decoded;
  uint64_t tag = got->delivery_tag;
  amqp_message_t message;
  reply = amqp_read_message(conn, CHANNEL, &message, 0);
  check(reply.reply_type == AMQP_RESPONSE_NORMAL, "the message of basic.get-ok");
  snprintf(body, size, "%.*s", (int)message.body.len, (char *)message.body.bytes);
  amqp_destroy_message(&message);
  if (!no_ack) amqp_basic_ack(conn, CHANNEL, tag, 0);
  return 1;
}

static void get(void) {
  char key[20], body[20];
  for (int i = 0; i < 3; i++) {
    snprintf(key, sizeof key, "%d", i);
    snprintf(body, sizeof body, "get %d", i);
    publish(key, body);
  }
  for (int i = 0, seen[3] = {0}; i < 3; i++) {
    int number = -1;
    check(fetch(queue, 0, body, sizeof body) && sscanf(body, "get %d", &number) == 1, "a message is missing");
    check(number >= 0 && number < 3 && !seen[number]++, body);
  }
  check(!fetch(queue, 0, body, sizeof body), "a fourth message");
  puts("ok get: 3 messages, then empty");
}

static void rpc(void) {
  amqp_basic_properties_t ask = {._flags = AMQP_BASIC_REPLY_TO_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG};
  amqp_envelope_t question, reply;
  ask.reply_to = amqp_cstring_bytes("amq.rabbitmq.reply-to");
  ask.correlation_id = amqp_cstring_bytes("call");
  subscribe("amq.rabbitmq.reply-to", "replies", 1);
  send_to(exchange, amqp_cstring_bytes("rpc"), "question", &ask);
  subscribe(queue, "server", 0);
  receive(&question);
  check(is(question.message.body, "question"), "another question");
  amqp_basic_properties_t answer = {._flags = AMQP_BASIC_CORRELATION_ID_FLAG};
  answer.correlation_id = question.message.properties.correlation_id;
  amqp_basic_publish(conn, CHANNEL, amqp_empty_bytes, question.message.properties.reply_to, 0, 0, &answer, amqp_cstring_bytes("answer"));
  amqp_basic_ack(conn, CHANNEL, question.delivery_tag, 0);
  receive(&reply);
  check(is(reply.message.body, "answer") && is(reply.message.properties.correlation_id, "call"), "another reply");
  amqp_destroy_envelope(&question);
  amqp_destroy_envelope(&reply);
  cancel("server");
  cancel("replies");
  puts("ok rpc: direct reply-to");
}

static void refused(void) {
  char text[300];
  open_channel(CHANNEL + 1);
  check(declare_queue(CHANNEL + 1, "missing", 1) == NULL, "a missing queue was declared");
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(conn);
  check(reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION, "no exception");
  explain(&reply.reply, text, sizeof text);
  amqp_channel_close_ok_t close_ok = {0};
  amqp_send_method(conn, CHANNEL + 1, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
  declare_queue(CHANNEL, queue, 1);
  ok("queue.declare");
  printf("ok error: %s; the connection goes on\n", text);
}

static void reconnect(void) {
  char text[300] = "the connection was not closed", body[20] = "";
  amqp_frame_t frame;
  puts("wait reconnect");
  int status = amqp_simple_wait_frame_noblock(conn, &frame, &patience);
  check(status == AMQP_STATUS_OK && frame.frame_type == AMQP_FRAME_METHOD, amqp_error_string2(status));
  check(frame.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD, text);
  explain(&frame.payload.method, text, sizeof text);
  amqp_connection_close_ok_t close_ok = {0};
  amqp_send_method(conn, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &close_ok);
  amqp_destroy_connection(conn);
  connect_again();
  publish("0", "get 0");
  check(fetch(queue, 1, body, sizeof body) && strcmp(body, "get 0") == 0, "no message");
  amqp_connection_close(conn, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(conn);
  free(parsed);
  printf("ok reconnect: after %s\n", text);
}

int main(int argc, char **argv) {
  if (argc != 5) fail("usage: session URL EXCHANGE QUEUE KIND");
  url = argv[1];
  exchange = argv[2];
  queue = argv[3];
  kind = argv[4];
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("version %s\n", amqp_version());
  declare();
  confirm();
  consume();
  ack();
  nack();
  get();
  rpc();
  refused();
  reconnect();
  return 0;
}
