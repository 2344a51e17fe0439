import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.CancelCallback;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import com.rabbitmq.client.impl.ClientVersion;
import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** The client matrix's session with the Java client: Session URL EXCHANGE QUEUE KIND [restart]. */
public final class Session {
    private static final int MESSAGES = 20;
    /** Seconds for every wait: only something that is broken takes so long. */
    private static final int PATIENCE = 60;

    private final String url, exchange, queue, kind;
    private Connection connection;
    private Channel channel;

    private Session(String[] args) {
        url = args[0];
        exchange = args[1];
        queue = args[2];
        kind = args[3];
    }

    private interface Step {
        String run() throws Exception;
    }

    private static void step(String name, Step step) throws Exception {
        System.out.println("ok " + name + ": " + step.run());
    }

    private static void check(boolean condition, Object text) {
        if (!condition) throw new IllegalStateException(String.valueOf(text));
    }

    private Channel openChannel() throws IOException {
        Channel opened = connection.createChannel();
        opened.confirmSelect();
        return opened;
    }

    /** Returns when the message is confirmed. */
    private void publish(String key, String body) throws Exception {
        channel.basicPublish(exchange, key, true, MessageProperties.BASIC, body.getBytes());
        channel.waitForConfirmsOrDie(PATIENCE * 1000);
    }

    private static Delivery next(BlockingQueue<Delivery> inbox) throws InterruptedException {
        Delivery delivery = inbox.poll(PATIENCE, TimeUnit.SECONDS);
        check(delivery != null, "nothing came");
        return delivery;
    }

    private static String text(Delivery delivery) {
        return new String(delivery.getBody());
    }

    private BlockingQueue<Delivery> subscribe(String tag) throws IOException {
        BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
        CancelCallback cancelled = consumer -> { throw new IllegalStateException("cancelled: " + consumer); };
        channel.basicConsume(queue, false, tag, (consumer, delivery) -> inbox.add(delivery), cancelled);
        return inbox;
    }

    private String declare() throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(url);
        factory.setAutomaticRecoveryEnabled(true);
        factory.setNetworkRecoveryInterval(100); // ms
        connection = factory.newConnection();
        channel = openChannel();
        channel.addReturnListener(returned -> check(false, "returned: " + returned.getReplyText()));
        channel.exchangeDeclare(exchange, kind, true);
        AMQP.Queue.DeclareOk ok = channel.queueDeclare(queue, true, false, false, null);
        check(ok.getQueue().equals(queue) && ok.getMessageCount() == 0, ok);
        channel.queueBind(queue, exchange, "any");
        return "exchange, queue and binding";
    }

    private String confirm() throws Exception {
        for (int i = 0; i < MESSAGES; i++) publish("key." + i, "message " + i);
        return MESSAGES + " messages";
    }

    private String consume() throws Exception {
        channel.basicQos(10);
        BlockingQueue<Delivery> inbox = subscribe("worker");
        Set<String> seen = new HashSet<>();
        while (seen.size() < MESSAGES) {
            Delivery delivery = next(inbox);
            String key = "key." + text(delivery).replace("message ", "");
            check(seen.add(key) && delivery.getEnvelope().getExchange().equals(exchange)
                && delivery.getEnvelope().getRoutingKey().equals(key), delivery.getEnvelope());
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }
        return MESSAGES + " messages, each once";
    }

    /** Closes the channel: what had not been acknowledged would be in the queue again. */
    private String ack() throws Exception {
        channel.close();
        channel = openChannel();
        AMQP.Queue.DeclareOk left = channel.queueDeclarePassive(queue);
        check(left.getMessageCount() == 0 && left.getConsumerCount() == 0, left);
        return "nothing left";
    }

    private String nack() throws Exception {
        BlockingQueue<Delivery> inbox = subscribe("worker");
        publish("again", "again");
        for (boolean redelivered : new boolean[] {false, true}) {
            Delivery delivery = next(inbox);
            check(text(delivery).equals("again") && delivery.getEnvelope().isRedeliver() == redelivered, delivery.getEnvelope());
            channel.basicNack(delivery.getEnvelope().getDeliveryTag(), false, !redelivered);
        }
        channel.basicCancel("worker");
        return "redelivered, then dropped";
    }

    private String get() throws Exception {
        for (int i = 0; i < 3; i++) publish("" + i, "get " + i);
        for (int i = 0; i < 3; i++) {
            GetResponse response = channel.basicGet(queue, false);
            check(response != null && new String(response.getBody()).equals("get " + response.getEnvelope().getRoutingKey()), response);
            channel.basicAck(response.getEnvelope().getDeliveryTag(), false);
        }
        check(channel.basicGet(queue, false) == null, "a fourth message");
        return "3 messages, then empty";
    }

    /** With the library's own RPC client, which uses direct reply-to, and server. */
    private String rpc() throws Exception {
        Channel serving = connection.createChannel(), asking = connection.createChannel();
        RpcServer server = new RpcServer(serving, queue) {
            @Override
            public byte[] handleCall(Delivery request, AMQP.BasicProperties reply) {
                return ("answer to " + text(request)).getBytes();
            }
        };
        Thread thread = new Thread(() -> {
            try {
                server.mainloop();
            } catch (IOException | ShutdownSignalException ended) {
                check(false, ended);
            }
        });
        thread.start();
        RpcClient client = new RpcClient(asking, exchange, "rpc", PATIENCE * 1000);
        String answer = new String(client.primitiveCall("question".getBytes()));
        check(answer.equals("answer to question"), answer);
        client.close();
        server.terminateMainloop();
        thread.interrupt(); // it waits for the next request
        thread.join();
        server.close();
        serving.close();
        asking.close();
        return "direct reply-to";
    }

    private String error() throws Exception {
        try {
            connection.createChannel().queueDeclarePassive("missing");
        } catch (IOException refused) {
            AMQP.Channel.Close close = (AMQP.Channel.Close) ((ShutdownSignalException) refused.getCause()).getReason();
            channel.queueDeclarePassive(queue);
            return close.getReplyCode() + " " + close.getReplyText() + "; the connection goes on";
        }
        throw new IllegalStateException("a missing queue was declared");
    }

    /** When the connection is lost, with what the broker said. */
    private CompletableFuture<AMQP.Connection.Close> lost() {
        CompletableFuture<AMQP.Connection.Close> lost = new CompletableFuture<>();
        connection.addShutdownListener(cause -> lost.complete((AMQP.Connection.Close) cause.getReason()));
        return lost;
    }

    /** The client connects again by itself, and its consumer goes on. */
    private String reconnect() throws Exception {
        CompletableFuture<AMQP.Connection.Close> lost = lost();
        CompletableFuture<Boolean> recovered = new CompletableFuture<>();
        ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
            @Override
            public void handleRecovery(Recoverable recoverable) {
                recovered.complete(true);
            }

            @Override
            public void handleRecoveryStarted(Recoverable recoverable) {}
        });
        BlockingQueue<Delivery> inbox = subscribe("worker");
        System.out.println("wait reconnect");
        AMQP.Connection.Close close = lost.get(PATIENCE, TimeUnit.SECONDS);
        recovered.get(PATIENCE, TimeUnit.SECONDS);
        publish("after", "after");
        return last(inbox, "after", close);
    }

    /** What it is connected to ends, and is started again: its consumer goes on by itself and gets what was published meanwhile. */
    private String restart() throws Exception {
        CompletableFuture<AMQP.Connection.Close> lost = lost();
        BlockingQueue<Delivery> inbox = subscribe("worker");
        System.out.println("wait restart");
        return last(inbox, "meanwhile", lost.get(PATIENCE, TimeUnit.SECONDS));
    }

    private String last(BlockingQueue<Delivery> inbox, String expected, AMQP.Connection.Close close) throws Exception {
        Delivery delivery = next(inbox);
        check(text(delivery).equals(expected), text(delivery));
        channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        connection.close();
        return "after " + close.getReplyCode() + " " + close.getReplyText();
    }

    public static void main(String[] args) throws Exception {
        Session session = new Session(args);
        System.out.println("version " + ClientVersion.VERSION);
        step("declare", session::declare);
        if (args.length > 4) {
            step("restart", session::restart);
            return;
        }
        step("confirm", session::confirm);
        step("consume", session::consume);
        step("ack", session::ack);
        step("nack", session::nack);
        step("get", session::get);
        step("rpc", session::rpc);
        step("error", session::error);
        step("reconnect", session::reconnect);
    }
}
