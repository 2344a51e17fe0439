<?php
// The client matrix's session with php-amqp, the extension over librabbitmq: session.php URL EXCHANGE QUEUE KIND.

declare(strict_types=1);

const MESSAGES = 20;
const PATIENCE = 60; // seconds for every wait: only something that is broken takes so long

function check(bool $condition, string $text): void
{
    if (!$condition) {
        throw new RuntimeException($text);
    }
}

final class Session
{
    public const STEPS = ['declare', 'confirm', 'consume', 'ack', 'nack', 'get', 'rpc', 'error', 'reconnect'];

    private AMQPConnection $connection;
    private AMQPChannel $channel;
    private AMQPExchange $exchange;
    private AMQPQueue $queue;

    public function __construct(private string $url, private string $exchangeName, private string $queueName, private string $kind)
    {
    }

    private function connect(): void
    {
        $url = parse_url($this->url);
        $this->connection = new AMQPConnection([
            'host' => $url['host'], 'port' => $url['port'], 'login' => $url['user'], 'password' => $url['pass'],
            'vhost' => rawurldecode(substr($url['path'], 1)), 'read_timeout' => PATIENCE,
        ]);
        $this->connection->connect();
        $this->openChannel();
    }

    private function openChannel(): void
    {
        $this->channel = new AMQPChannel($this->connection);
        $this->channel->confirmSelect();
        $this->channel->setConfirmCallback(fn () => false, fn () => check(false, 'a message was nacked'));
        $this->channel->setReturnCallback(fn ($code, $text) => check(false, "returned: $text"));
        $this->exchange = new AMQPExchange($this->channel);
        $this->exchange->setName($this->exchangeName);
        $this->exchange->setType($this->kind);
        $this->exchange->setFlags(AMQP_DURABLE);
        $this->queue = $this->queueOn($this->channel, $this->queueName, AMQP_DURABLE);
    }

    private function queueOn(AMQPChannel $channel, string $name, int $flags): AMQPQueue
    {
        $queue = new AMQPQueue($channel);
        $queue->setName($name);
        $queue->setFlags($flags);
        return $queue;
    }

    /** Returns when the message is confirmed. */
    private function publish(string $key, string $body, array $properties = []): void
    {
        $this->exchange->publish($body, $key, AMQP_MANDATORY, $properties);
        $this->channel->waitForConfirm(PATIENCE);
    }

    public function declare(): string
    {
        $this->connect();
        $this->exchange->declareExchange();
        check($this->queue->declareQueue() === 0 && $this->queue->getName() === $this->queueName, $this->queue->getName());
        $this->queue->bind($this->exchangeName, 'any');
        return 'exchange, queue and binding';
    }

    public function confirm(): string
    {
        for ($i = 0; $i < MESSAGES; $i++) {
            $this->publish("key.$i", "message $i");
        }
        return MESSAGES . ' messages';
    }

    public function consume(): string
    {
        $seen = [];
        $this->channel->setPrefetchCount(10);
        $this->queue->consume(function (AMQPEnvelope $m, AMQPQueue $queue) use (&$seen): bool {
            $body = $m->getBody();
            check(!isset($seen[$body]) && $m->getExchangeName() === $this->exchangeName
                && "message {$m->getRoutingKey()}" === str_replace(' ', ' key.', $body), "came: $body, key {$m->getRoutingKey()}");
            $seen[$body] = true;
            $queue->ack($m->getDeliveryTag());
            return count($seen) < MESSAGES;
        });
        return MESSAGES . ' messages, each once';
    }

    /** Closes the channel: what had not been acknowledged would be in the queue again. */
    public function ack(): string
    {
        $this->channel->close();
        $this->openChannel();
        $left = $this->queueOn($this->channel, $this->queueName, AMQP_PASSIVE)->declareQueue();
        check($left === 0, "$left messages");
        return 'nothing left';
    }

    public function nack(): string
    {
        $flags = [];
        $this->publish('again', 'again');
        $this->queue->consume(function (AMQPEnvelope $m, AMQPQueue $queue) use (&$flags): bool {
            check($m->getBody() === 'again', $m->getBody());
            $flags[] = $m->isRedelivery();
            $queue->nack($m->getDeliveryTag(), count($flags) === 1 ? AMQP_REQUEUE : AMQP_NOPARAM);
            return count($flags) < 2;
        });
        check($flags === [false, true], json_encode($flags));
        $this->queue->cancel();
        return 'redelivered, then dropped';
    }

    public function get(): string
    {
        for ($i = 0; $i < 3; $i++) {
            $this->publish("$i", "get $i");
        }
        for ($i = 0; $i < 3; $i++) {
            $message = $this->queue->get();
            check($message && $message->getBody() === "get {$message->getRoutingKey()}", 'a message is missing');
            $this->queue->ack($message->getDeliveryTag());
        }
        check($this->queue->get() === false, 'a fourth message');
        return '3 messages, then empty';
    }

    /** The extension waits for one channel at a time, so that the reply goes to a queue. */
    public function rpc(): string
    {
        $replies = new AMQPQueue($this->channel);
        $replies->setFlags(AMQP_EXCLUSIVE);
        $replies->declareQueue();
        $this->publish('rpc', 'question', ['reply_to' => $replies->getName(), 'correlation_id' => 'call']);
        $this->queue->consume(function (AMQPEnvelope $m, AMQPQueue $queue): bool {
            check($m->getBody() === 'question', $m->getBody());
            $default = new AMQPExchange($this->channel);
            $default->publish('answer', $m->getReplyTo(), AMQP_NOPARAM, ['correlation_id' => $m->getCorrelationId()]);
            $this->channel->waitForConfirm(PATIENCE);
            $queue->ack($m->getDeliveryTag());
            return false;
        });
        $this->queue->cancel();
        $reply = $replies->get(AMQP_AUTOACK);
        check($reply && [$reply->getCorrelationId(), $reply->getBody()] === ['call', 'answer'], 'another reply, or none');
        return 'reply queue';
    }

    public function error(): string
    {
        try {
            $this->queueOn(new AMQPChannel($this->connection), 'missing', AMQP_PASSIVE)->declareQueue();
        } catch (AMQPQueueException $refused) {
            $this->queueOn($this->channel, $this->queueName, AMQP_PASSIVE)->declareQueue();
            return $this->text($refused) . '; the connection goes on';
        }
        throw new RuntimeException('a missing queue was declared');
    }

    /** "Server channel error: 404, message: NOT_FOUND ..." as "404 NOT_FOUND ...". */
    private function text(AMQPQueueException $refused): string
    {
        return preg_replace('/^Server channel error: (\d+), message: /', '$1 ', $refused->getMessage());
    }

    /** The extension says of a close what it was while it waits for an answer, and only that the channel is wrong at other times. */
    public function reconnect(): string
    {
        echo "wait reconnect\n";
        try {
            $this->queue->consume(fn (): bool => check(false, 'a message came'));
        } catch (AMQPException) {
            $this->connect();
            $this->publish('0', 'get 0');
            $message = $this->queue->get(AMQP_AUTOACK);
            check($message && $message->getBody() === 'get 0', 'no message');
            $this->connection->disconnect();
            return 'after the close';
        }
        throw new RuntimeException('the connection was not closed');
    }
}

echo 'version ', phpversion('amqp'), "\n";
$session = new Session(...array_slice($argv, 1));
foreach (Session::STEPS as $step) {
    echo "ok $step: {$session->$step()}\n";
}
