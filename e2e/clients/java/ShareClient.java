import java.io.PrintStream;
import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of a share group that acknowledges by a pattern and prints what it does: see README.md of the end-to-end tests for the
 * arguments and the lines, which the clients in Python and Go share.
 */
public class ShareClient {
    static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);

    final Map<String, String> args = new HashMap<>();
    final boolean explicit;
    final boolean sync;
    final boolean renew;
    final long seed;
    final int rejects;
    final int count;
    final KafkaShareConsumer<byte[], byte[]> consumer;
    final Metadata metadata;
    final Map<String, Byte> asked = new HashMap<>(); // "partition/offset": the type that its last acknowledgement asked for
    final Set<String> renewed = new HashSet<>();
    final Set<String> settled = new HashSet<>();
    final List<ConsumerRecord<byte[], byte[]>> implied = new ArrayList<>(); // implicit mode: accepted by the next poll or commit
    String nodes = "";
    volatile boolean stop;

    public static void main(String[] argv) throws Exception {
        ShareClient c = new ShareClient(argv);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            c.stop = true;
            try {
                main.join();
            } catch (InterruptedException e) {
                throw new RuntimeException(e);
            }
        }));
        c.run();
    }

    ShareClient(String[] argv) throws Exception {
        for (int i = 0; i + 1 < argv.length; i += 2) args.put(argv[i].substring(2), argv[i + 1]);
        explicit = args.get("mode").startsWith("explicit");
        sync = args.get("mode").endsWith("sync");
        renew = Boolean.parseBoolean(args.get("renew"));
        seed = Long.parseLong(args.get("seed"));
        count = Integer.parseInt(args.get("count"));
        rejects = Integer.parseInt(args.getOrDefault("rejects", "0"));
        Properties p = new Properties();
        p.put("bootstrap.servers", args.get("bootstrap"));
        p.put("group.id", args.get("group"));
        p.put("client.id", args.get("client-id"));
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        p.put("share.acknowledgement.mode", explicit ? "explicit" : "implicit");
        if (args.containsKey("acquire")) p.put("share.acquire.mode", args.get("acquire"));
        p.put("max.poll.records", args.get("max-poll"));
        p.put("reconnect.backoff.max.ms", "250");
        consumer = new KafkaShareConsumer<>(p);
        metadata = metadataOf(consumer);
        consumer.setAcknowledgementCommitCallback(this::results);
        consumer.subscribe(List.of(args.get("topic")));
    }

    /** The consumer's own view of the brokers has no accessor. */
    static Metadata metadataOf(KafkaShareConsumer<?, ?> c) throws Exception {
        Field d = KafkaShareConsumer.class.getDeclaredField("delegate");
        d.setAccessible(true);
        Object delegate = d.get(c);
        Field m = delegate.getClass().getDeclaredField("metadata");
        m.setAccessible(true);
        return (Metadata) m.get(delegate);
    }

    void run() {
        try {
            while (!stop && (count == 0 || settled.size() < count)) {
                imply();
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                view();
                for (ConsumerRecord<byte[], byte[]> r : records) {
                    if (explicit) acknowledge(r);
                    else implied.add(r);
                }
                if (sync && !records.isEmpty()) commit();
                OUT.flush();
            }
        } finally {
            consumer.close(Duration.ofSeconds(20));
            OUT.println("{\"event\":\"closed\",\"settled\":" + settled.size() + "}");
            OUT.flush();
        }
    }

    void commit() {
        imply();
        consumer.commitSync(Duration.ofSeconds(30)).forEach((p, e) ->
            OUT.println("{\"event\":\"commit\",\"topic\":" + quote(p.topic()) + ",\"partition\":" + p.partition()
                + ",\"error\":" + e.map(x -> quote(x.toString())).orElse("null") + "}"));
    }

    /** Implicit mode: what was delivered counts as accepted from here on. */
    void imply() {
        for (ConsumerRecord<byte[], byte[]> r : implied) asks(r, AcknowledgeType.ACCEPT);
        implied.clear();
    }

    void acknowledge(ConsumerRecord<byte[], byte[]> r) {
        AcknowledgeType type = choose(r);
        asks(r, type);
        consumer.acknowledge(r, type);
    }

    /**
     * The pattern: of first deliveries one in ten is released and one rejected, and below offset 100 one is renewed: each renewal costs
     * a round of its own. A renewed record is accepted afterwards. With --rejects so many of a hundred records are released at first
     * and rejected when they come again, and all others accepted.
     */
    AcknowledgeType choose(ConsumerRecord<byte[], byte[]> r) {
        int delivery = r.deliveryCount().orElse((short) 1);
        long sum = seed * 31 + r.partition() * 7L + r.offset() * 13;
        if (rejects > 0) {
            if (sum % 100 >= rejects) return AcknowledgeType.ACCEPT;
            return delivery > 1 ? AcknowledgeType.REJECT : AcknowledgeType.RELEASE;
        }
        long h = sum % 10;
        if (delivery > 1 || renewed.remove(key(r.partition(), r.offset()))) return AcknowledgeType.ACCEPT;
        if (h == 0) return AcknowledgeType.RELEASE;
        if (h == 1) return AcknowledgeType.REJECT;
        if (h == 2 && renew && r.offset() < 100) {
            renewed.add(key(r.partition(), r.offset()));
            return AcknowledgeType.RENEW;
        }
        return AcknowledgeType.ACCEPT;
    }

    void asks(ConsumerRecord<byte[], byte[]> r, AcknowledgeType type) {
        asked.put(key(r.partition(), r.offset()), type.id);
        OUT.println("{\"event\":\"ack\",\"topic\":" + quote(r.topic()) + ",\"partition\":" + r.partition() + ",\"offset\":" + r.offset()
            + ",\"delivery_count\":" + r.deliveryCount().orElse((short) 0) + ",\"type\":" + quote(type.toString()) + "}");
    }

    void results(Map<TopicIdPartition, Set<Long>> offsets, Exception e) {
        offsets.forEach((p, set) -> {
            OUT.println("{\"event\":\"result\",\"topic\":" + quote(p.topic()) + ",\"partition\":" + p.partition()
                + ",\"offsets\":" + new TreeSet<>(set) + ",\"error\":" + (e == null ? "null" : quote(e.toString())) + "}");
            if (e != null) return;
            for (long o : set) {
                Byte type = asked.get(key(p.partition(), o));
                if (type != null && (type == AcknowledgeType.ACCEPT.id || type == AcknowledgeType.REJECT.id)) settled.add(key(p.partition(), o));
            }
        });
    }

    void view() {
        TreeSet<String> all = new TreeSet<>();
        metadata.fetch().nodes().forEach(n -> all.add(n.host() + ":" + n.port()));
        List<String> quoted = new ArrayList<>();
        all.forEach(n -> quoted.add(quote(n)));
        String now = quoted.toString();
        if (now.equals(nodes)) return;
        nodes = now;
        OUT.println("{\"event\":\"nodes\",\"nodes\":" + now + "}");
    }

    static String key(int partition, long offset) {
        return partition + "/" + offset;
    }

    static String quote(String s) {
        return '"' + s.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ") + '"';
    }
}
