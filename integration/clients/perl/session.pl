#!/usr/bin/perl
# The client matrix's session with AnyEvent::RabbitMQ: session.pl URL EXCHANGE QUEUE KIND.

use strict;
use warnings;

use AnyEvent;
use AnyEvent::RabbitMQ;

use constant { MESSAGES => 20, PATIENCE => 60 };    # seconds for every wait

my ($url, $exchange, $queue, $kind) = @ARGV;
my ($user, $password, $host, $port, $vhost) = $url =~ m{^amqp://(.*?):(.*?)@(.*?):(\d+)/(.*)$} or die "URL?\n";
my ($connection, $channel, $lost);

sub check {
    my ($condition, $text) = @_;
    die "$text\n" unless $condition;
}

# wait_for returns what is sent to the condition variable.
sub wait_for {
    my ($cv) = @_;
    my $timer = AnyEvent->timer(after => PATIENCE, cb => sub { $cv->croak("nothing came\n") });
    return $cv->recv;
}

# call makes an asynchronous call and returns its result.
sub call {
    my ($object, $method, @args) = @_;
    my $cv = AnyEvent->condvar;
    $object->$method(@args, on_success => sub { $cv->send($_[0]) }, on_failure => sub { $cv->croak("$method: " . text(@_) . "\n") });
    return wait_for($cv);
}

# text is what a close of the broker says, "CODE TEXT", or what is wrong with the socket.
sub text {
    my ($what, @more) = @_;
    return "$what @more" unless ref $what && $what->can('method_frame');
    return $what->method_frame->reply_code . ' ' . $what->method_frame->reply_text;
}

sub open_channel {
    my ($on_close) = @_;
    return call($connection, 'open_channel', on_close => $on_close || sub { });
}

sub connect_again {
    $lost = AnyEvent->condvar;
    my $closed = $lost;
    $connection = call(
        AnyEvent::RabbitMQ->new->load_xml_spec, 'connect',
        host => $host, port => $port, user => $user, pass => $password, vhost => $vhost, timeout => PATIENCE,
        on_close => sub { $closed->send(text(@_)) },
        on_read_failure => sub { $closed->send("read: @_") },
    );
    $channel = open_channel();
    call($channel, 'confirm');
    return;
}

# publish returns when the message is confirmed.
sub publish {
    my ($key, $body, %header) = @_;
    my $cv = AnyEvent->condvar;
    $channel->publish(
        exchange => $exchange, routing_key => $key, body => $body, header => \%header, mandatory => 1,
        on_ack => sub { $cv->send }, on_nack => sub { $cv->croak("$body was nacked\n") }, on_return => sub { $cv->croak("$body was returned\n") },
    );
    wait_for($cv);
    return;
}

# subscribe calls back with deliveries, and returns the consumer's tag.
sub subscribe {
    my ($on, $from, $no_ack, $callback) = @_;
    my $ok = call($on, 'consume', queue => $from, no_ack => $no_ack, on_consume => $callback);
    return $ok->method_frame->consumer_tag;
}

sub body { return $_[0]{body}->to_raw_payload }

my %step;

$step{declare} = sub {
    connect_again();
    call($channel, 'declare_exchange', exchange => $exchange, type => $kind, durable => 1);
    my $ok = call($channel, 'declare_queue', queue => $queue, durable => 1)->method_frame;
    check($ok->queue eq $queue && $ok->message_count == 0, 'another queue');
    call($channel, 'bind_queue', queue => $queue, exchange => $exchange, routing_key => 'any');
    return 'exchange, queue and binding';
};

$step{confirm} = sub {
    publish("key.$_", "message $_") for 0 .. MESSAGES - 1;
    return MESSAGES . ' messages';
};

$step{consume} = sub {
    my %seen;
    my $cv = AnyEvent->condvar;
    call($channel, 'qos', prefetch_count => 10);
    subscribe($channel, $queue, 0, sub {
        my ($message) = @_;
        my ($frame, $body) = ($message->{deliver}->method_frame, body($message));
        my ($number) = $body =~ /^message (\d+)$/;
        if (!defined $number || $seen{$number}++ || $frame->exchange ne $exchange || $frame->routing_key ne "key.$number") {
            $cv->croak("came: $body\n");
        }
        $channel->ack(delivery_tag => $frame->delivery_tag);
        $cv->send if keys %seen == MESSAGES;
    });
    wait_for($cv);
    return MESSAGES . ' messages, each once';
};

# Closes the channel: what had not been acknowledged would be in the queue again.
$step{ack} = sub {
    call($channel, 'close');
    $channel = open_channel();
    call($channel, 'confirm');
    my $left = call($channel, 'declare_queue', queue => $queue, passive => 1)->method_frame;
    check($left->message_count == 0 && $left->consumer_count == 0, 'something is left');
    return 'nothing left';
};

# The library has reject, no nack.
$step{nack} = sub {
    my @flags;
    my $cv = AnyEvent->condvar;
    my $tag = subscribe($channel, $queue, 0, sub {
        my $frame = $_[0]{deliver}->method_frame;
        push @flags, $frame->redelivered ? 1 : 0;
        $channel->reject(delivery_tag => $frame->delivery_tag, requeue => @flags == 1);
        $cv->send if @flags == 2;
    });
    publish('again', 'again');
    wait_for($cv);
    check("@flags" eq '0 1', "flags: @flags");
    call($channel, 'cancel', consumer_tag => $tag);
    return 'redelivered, then dropped';
};

$step{get} = sub {
    publish($_, "get $_") for 0 .. 2;
    for (1 .. 3) {
        my $message = call($channel, 'get', queue => $queue, no_ack => 0);
        check(!$message->{empty}, 'a message is missing');
        my $frame = $message->{ok}->method_frame;
        check(body($message) eq 'get ' . $frame->routing_key, body($message));
        $channel->ack(delivery_tag => $frame->delivery_tag);
    }
    check(call($channel, 'get', queue => $queue)->{empty}, 'a fourth message');
    return '3 messages, then empty';
};

$step{rpc} = sub {
    my $cv = AnyEvent->condvar;
    my $asker = open_channel();
    subscribe($asker, 'amq.rabbitmq.reply-to', 1, sub { $cv->send($_[0]{header}->correlation_id, body($_[0])) });
    my $tag = subscribe($channel, $queue, 0, sub {
        my ($question) = @_;
        my %header = (correlation_id => $question->{header}->correlation_id);
        $channel->publish(exchange => '', routing_key => $question->{header}->reply_to, body => 'answer', header => \%header);
        $channel->ack(delivery_tag => $question->{deliver}->method_frame->delivery_tag);
    });
    my %header = (reply_to => 'amq.rabbitmq.reply-to', correlation_id => 'call');
    $asker->publish(exchange => $exchange, routing_key => 'rpc', body => 'question', header => \%header);
    my ($id, $answer) = wait_for($cv);
    check("$id $answer" eq 'call answer', "$id $answer");
    call($channel, 'cancel', consumer_tag => $tag);
    call($asker, 'close');
    return 'direct reply-to';
};

$step{error} = sub {
    my $cv = AnyEvent->condvar;
    my $other = open_channel(sub { $cv->send(text(@_)) });
    $other->declare_queue(queue => 'missing', passive => 1, on_success => sub { $cv->croak("a missing queue was declared\n") });
    my $text = wait_for($cv);
    call($channel, 'declare_queue', queue => $queue, passive => 1);
    return "$text; the connection goes on";
};

$step{reconnect} = sub {
    print "wait reconnect\n";
    my $text = wait_for($lost);
    connect_again();
    publish('0', 'get 0');
    my $message = call($channel, 'get', queue => $queue, no_ack => 1);
    check(!$message->{empty} && body($message) eq 'get 0', 'no message');
    call($connection, 'close');
    return "after $text";
};

$| = 1;
print "version $AnyEvent::RabbitMQ::VERSION\n";
print "ok $_: ", $step{$_}->(), "\n" for qw(declare confirm consume ack nack get rpc error reconnect);
