# frozen_string_literal: true

# The client matrix's session with bunny: session.rb URL EXCHANGE QUEUE KIND [restart].

require "bunny"
require "stringio"
require "timeout"

MESSAGES = 20
PATIENCE = 60 # seconds for every wait: only something that is broken takes so long

# A session's steps, in the order in which they are made.
class Session
  STEPS = %i[declare confirm consume ack nack get rpc error reconnect].freeze

  def initialize(url, exchange, queue, kind, only = nil)
    @url, @exchange_name, @queue_name, @kind = url, exchange, queue, kind
    @steps = only ? %i[declare restart] : STEPS
  end

  def declare
    @log = StringIO.new
    logger = Logger.new(@log, level: Logger::WARN)
    @connection = Bunny.new(@url, logger: logger, network_recovery_interval: 0.1).start
    @channel = open_channel
    @channel.confirm_select
    @exchange = @channel.exchange(@exchange_name, type: @kind, durable: true)
    @exchange.on_return { |info, _properties, _body| abort("returned: #{info.inspect}") }
    @queue = @channel.queue(@queue_name, durable: true)
    check(@queue.name == @queue_name && @queue.message_count.zero?, @queue.inspect)
    @queue.bind(@exchange, routing_key: "any")
    "exchange, queue and binding"
  end

  def confirm
    MESSAGES.times { |i| publish("key.#{i}", "message #{i}") }
    "#{MESSAGES} messages"
  end

  def consume
    @consuming = open_channel
    @consuming.prefetch(10)
    seen = ::Queue.new
    @consuming.queue(@queue_name, durable: true).subscribe(manual_ack: true) do |info, _properties, body|
      seen << [body, info.exchange, info.routing_key]
      @consuming.ack(info.delivery_tag)
    end
    came = Array.new(MESSAGES) { pop(seen) }
    expected = Array.new(MESSAGES) { |i| ["message #{i}", @exchange_name, "key.#{i}"] }
    check(came.sort == expected.sort, came.inspect)
    "#{MESSAGES} messages, each once"
  end

  # Closes the channel: what had not been acknowledged would be in the queue again.
  def ack
    @consuming.close
    status = @channel.queue(@queue_name, passive: true).status
    check(status == { message_count: 0, consumer_count: 0 }, status.inspect)
    "nothing left"
  end

  def nack
    inbox = ::Queue.new
    consumer = @queue.subscribe(manual_ack: true) { |*message| inbox << message }
    publish("again", "again")
    [false, true].each do |redelivered|
      info, _properties, body = pop(inbox)
      check(body == "again" && info.redelivered? == redelivered, info.inspect)
      @channel.nack(info.delivery_tag, false, !redelivered)
    end
    consumer.cancel
    "redelivered, then dropped"
  end

  def get
    3.times { |i| publish(i.to_s, "get #{i}") }
    3.times do
      info, _properties, body = @queue.pop(manual_ack: true)
      check(body == "get #{info&.routing_key}", body.inspect)
      @channel.ack(info.delivery_tag)
    end
    check(@queue.pop == [nil, nil, nil], "a fourth message")
    "3 messages, then empty"
  end

  def rpc
    replies = ::Queue.new
    asker = open_channel
    asker.basic_consume("amq.rabbitmq.reply-to", "", true) { |_info, properties, body| replies << [properties.correlation_id, body] }
    server = @queue.subscribe(manual_ack: true) do |info, properties, body|
      check(body == "question", body.inspect)
      @channel.default_exchange.publish("answer", routing_key: properties.reply_to, correlation_id: properties.correlation_id)
      @channel.ack(info.delivery_tag)
    end
    asker.basic_publish("question", @exchange_name, "rpc", reply_to: "amq.rabbitmq.reply-to", correlation_id: "call")
    reply = pop(replies)
    check(reply == %w[call answer], reply.inspect)
    server.cancel
    asker.close
    "direct reply-to"
  end

  def error
    @connection.create_channel.queue("missing", passive: true)
    raise "a missing queue was declared"
  rescue Bunny::NotFound => e
    @channel.queue(@queue_name, passive: true)
    "#{e.channel_close.reply_code} #{e.channel_close.reply_text}; the connection goes on"
  end

  # Bunny connects again by itself, and its consumer goes on.
  def reconnect
    inbox, recovered = ::Queue.new, ::Queue.new
    @queue.subscribe(manual_ack: false) { |_info, _properties, body| inbox << body }
    @connection.after_recovery_completed { recovered << true }
    $stdout.puts "wait reconnect"
    pop(recovered)
    publish("after", "after")
    body = pop(inbox)
    check(body == "after", body)
    @connection.close
    "after #{lost}"
  end

  # What it is connected to ends, and is started again: its consumer goes on by itself and gets what was published meanwhile.
  def restart
    inbox = ::Queue.new
    @queue.subscribe(manual_ack: true) do |info, _properties, body|
      @channel.ack(info.delivery_tag)
      inbox << body
    end
    $stdout.puts "wait restart"
    body = pop(inbox)
    check(body == "meanwhile", body)
    @connection.close
    "after #{lost}"
  end

  def run
    puts "version #{Bunny::VERSION}"
    @steps.each { |step| puts "ok #{step}: #{public_send(step)}" }
  end

  private

  # What the broker said when it closed the connection. Bunny tells its log alone, and does not when only the socket ends.
  def lost
    said = @log.string[/Recovering from connection\.close \((.*)\)/, 1]
    check(said, @log.string)
    said
  end

  def open_channel
    @connection.create_channel.tap { |channel| channel.on_uncaught_exception { |error, _consumer| abort(error.full_message) } }
  end

  # Returns when the message is confirmed.
  def publish(key, body)
    @exchange.publish(body, routing_key: key, mandatory: true)
    check(@channel.wait_for_confirms, "#{body} was nacked")
  end

  def pop(queue)
    Timeout.timeout(PATIENCE) { queue.pop }
  end

  def check(condition, text)
    raise text unless condition
  end
end

$stdout.sync = true
Session.new(*ARGV).run
