<?php
// The client matrix's session with php-amqplib: session.php URL EXCHANGE QUEUE KIND.

declare(strict_types=1);

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPConnectionClosedException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;

require '/usr/share/php/PhpAmqpLib/autoload.php';

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

    private AMQPStreamConnection $connection;
    private AMQPChannel $channel;

    public function __construct(private string $url, private string $exchange, private string $queue, private string $kind)
    {
    }

    private function connect(): void
    {
        $url = parse_url($this->url);
        $this->connection = new AMQPStreamConnection(
            $url['host'], $url['port'], $url['user'], $url['pass'], rawurldecode(substr($url['path'], 1)));
        $this->channel = $this->openChannel();
    }

    private function openChannel(): AMQPChannel
    {
        $channel = $this->connection->channel();
        $channel->confirm_select();
        $channel->set_nack_handler(fn (AMQPMessage $message) => check(false, $message->getBody() . ' was nacked'));
        $channel->set_return_listener(fn (...$what) => check(false, 'returned: ' . json_encode(array_slice($what, 0, 4))));
        return $channel;
    }

    /** Returns when the message is confirmed. */
    private function publish(string $key, string $body): void
    {
        $this->channel->basic_publish(new AMQPMessage($body), $this->exchange, $key, true);
        $this->channel->wait_for_pending_acks_returns(PATIENCE);
    }

    public function declare(): string
    {
        $this->connect();
        $this->channel->exchange_declare($this->exchange, $this->kind, false, true, false);
        $ok = $this->channel->queue_declare($this->queue, false, true, false, false);
        check($ok[0] === $this->queue && (int) $ok[1] === 0, json_encode($ok));
        $this->channel->queue_bind($this->queue, $this->exchange, 'any');
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
        $this->channel->basic_qos(0, 10, false);
        $this->channel->basic_consume($this->queue, '', false, false, false, false, function (AMQPMessage $m) use (&$seen): void {
            $body = $m->getBody();
            check(!isset($seen[$body]) && $m->getExchange() === $this->exchange
                && "message {$m->getRoutingKey()}" === str_replace(' ', ' key.', $body), "came: $body, key {$m->getRoutingKey()}");
            $seen[$body] = true;
            $m->ack();
        });
        while (count($seen) < MESSAGES) {
            $this->channel->wait(null, false, PATIENCE);
        }
        return MESSAGES . ' messages, each once';
    }

    /** Closes the channel: what had not been acknowledged would be in the queue again. */
    public function ack(): string
    {
        $this->channel->close();
        $this->channel = $this->openChannel();
        $ok = $this->channel->queue_declare($this->queue, true);
        check((int) $ok[1] === 0 && (int) $ok[2] === 0, json_encode($ok));
        return 'nothing left';
    }

    public function nack(): string
    {
        $flags = [];
        $tag = $this->channel->basic_consume($this->queue, '', false, false, false, false, function (AMQPMessage $m) use (&$flags): void {
            check($m->getBody() === 'again', $m->getBody());
            $flags[] = $m->isRedelivered();
            $m->nack(count($flags) === 1);
        });
        $this->publish('again', 'again');
        while (count($flags) < 2) {
            $this->channel->wait(null, false, PATIENCE);
        }
        check($flags === [false, true], json_encode($flags));
        $this->channel->basic_cancel($tag);
        return 'redelivered, then dropped';
    }

    public function get(): string
    {
        for ($i = 0; $i < 3; $i++) {
            $this->publish("$i", "get $i");
        }
        for ($i = 0; $i < 3; $i++) {
            $message = $this->channel->basic_get($this->queue);
            check($message?->getBody() === "get {$message?->getRoutingKey()}", (string) $message?->getBody());
            $message->ack();
        }
        check($this->channel->basic_get($this->queue) === null, 'a fourth message');
        return '3 messages, then empty';
    }

    public function rpc(): string
    {
        $reply = null;
        $asker = $this->connection->channel();
        $asker->basic_consume('amq.rabbitmq.reply-to', '', false, true, false, false, function (AMQPMessage $m) use (&$reply): void {
            $reply = [$m->get('correlation_id'), $m->getBody()];
        });
        $tag = $this->channel->basic_consume($this->queue, '', false, false, false, false, function (AMQPMessage $m): void {
            check($m->getBody() === 'question', $m->getBody());
            $answer = new AMQPMessage('answer', ['correlation_id' => $m->get('correlation_id')]);
            $m->getChannel()->basic_publish($answer, '', $m->get('reply_to'));
            $m->ack();
        });
        $question = new AMQPMessage('question', ['reply_to' => 'amq.rabbitmq.reply-to', 'correlation_id' => 'call']);
        $asker->basic_publish($question, $this->exchange, 'rpc');
        $this->channel->wait(['60,60'], false, PATIENCE); // basic.deliver; a confirm may come as well
        $this->channel->wait_for_pending_acks_returns(PATIENCE);
        while ($reply === null) {
            $asker->wait(null, false, PATIENCE);
        }
        check($reply === ['call', 'answer'], json_encode($reply));
        $this->channel->basic_cancel($tag);
        $asker->close();
        return 'direct reply-to';
    }

    public function error(): string
    {
        try {
            $this->connection->channel()->queue_declare('missing', true);
        } catch (AMQPProtocolChannelException $refused) {
            $this->channel->queue_declare($this->queue, true);
            return "{$refused->amqp_reply_code} {$refused->amqp_reply_text}; the connection goes on";
        }
        throw new RuntimeException('a missing queue was declared');
    }

    public function reconnect(): string
    {
        echo "wait reconnect\n";
        try {
            $this->connection->wait(null, false, PATIENCE);
        } catch (AMQPConnectionClosedException $lost) {
            $this->connect();
            $this->publish('0', 'get 0');
            $body = $this->channel->basic_get($this->queue, true)?->getBody();
            check($body === 'get 0', (string) $body);
            $this->connection->close();
            return "after {$lost->getCode()} " . preg_replace('/\(0, 0\)$/', '', $lost->getMessage()); // class and method
        }
        throw new RuntimeException('the connection was not closed');
    }
}

echo 'version ', PhpAmqpLib\Package::VERSION, "\n";
$session = new Session(...array_slice($argv, 1));
foreach (Session::STEPS as $step) {
    echo "ok $step: {$session->$step()}\n";
}
