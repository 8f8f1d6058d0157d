// SPDX-License-Identifier: MIT
//
// Lettuce against a server; story.py says what happens.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.output.ObjectOutput;
import io.lettuce.core.output.StatusOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;

public class Story {
    static final ProtocolKeyword TAKE = () -> "WEIR.TAKE".getBytes();

    static StatefulRedisConnection<String, String> connect(RedisClient client) {
        return client.connect();
    }

    static Map<?, ?> take(StatefulRedisConnection<String, String> weir, int user) {
        CommandArgs<String, String> words = new CommandArgs<>(StringCodec.UTF8).add("api").addKey("user:" + user);
        return (Map<?, ?>) weir.sync().dispatch(TAKE, new ObjectOutput<>(StringCodec.UTF8), words);
    }

    static final String ADDRESS = "127.0.0.1:" + System.getenv("WEIR_PORT");
    static final List<String> FIELDS =
        List.of("allowed", "remaining", "retry_after_ms", "reset_after_ms", "limit", "reason");
    static final long HALF_AN_HOUR = 1800 * 1000;

    /** A client and its connection, which comes back by itself. */
    static class Weir implements AutoCloseable {
        final int version;
        final RedisClient client;
        final StatefulRedisConnection<String, String> connection;

        Weir(String login, int version) {
            this.version = version;
            client = RedisClient.create("redis://" + login + "@" + ADDRESS);
            client.setOptions(ClientOptions.builder()
                .protocolVersion(version == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2).build());
            try {
                connection = client.connect();
            } catch (RedisException error) {
                stop(client);
                throw error;
            }
        }

        /** A command says what kind of reply it expects. */
        <T> RedisFuture<T> send(CommandOutput<String, String, T> output, String... words) {
            CommandArgs<String, String> rest = new CommandArgs<>(StringCodec.UTF8);
            rest.addValues(Arrays.copyOfRange(words, 1, words.length));
            ProtocolKeyword name = () -> words[0].getBytes();
            return connection.async().dispatch(name, output, rest);
        }

        Object ask(String... words) throws Exception {
            return send(new ObjectOutput<>(StringCodec.UTF8), words).get(20, TimeUnit.SECONDS);
        }

        Map<String, Object> verdict(String... words) throws Exception {
            return verdictOf(ask(words), version);
        }

        String set(String... words) throws Exception {
            return send(new StatusOutput<>(StringCodec.UTF8), words).get(20, TimeUnit.SECONDS);
        }

        long number(String... words) throws Exception {
            return send(new IntegerOutput<>(StringCodec.UTF8), words).get(20, TimeUnit.SECONDS);
        }

        @Override
        public void close() {
            connection.close();
            stop(client);
        }
    }

    static void stop(RedisClient client) {
        client.shutdown(0, 5, TimeUnit.SECONDS);
    }

    static void expect(boolean isSo, Object what) {
        if (!isSo) {
            throw new AssertionError(what);
        }
    }

    interface Attempt {
        Object run() throws Exception;
    }

    static void fails(String text, Attempt attempt) {
        Object reply;
        try {
            reply = attempt.run();
        } catch (Exception error) {
            boolean isSo = false;
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                isSo = isSo || String.valueOf(cause.getMessage()).contains(text);
            }
            expect(isSo, error);
            return;
        }
        throw new AssertionError(text + " was expected, not " + reply);
    }

    /** A map in version 3, a list of pairs in version 2. */
    static Map<String, Object> verdictOf(Object reply, int version) {
        Map<String, Object> verdict = new LinkedHashMap<>();
        if (version == 3) {
            ((Map<?, ?>) reply).forEach((name, value) -> verdict.put((String) name, value));
            expect(verdict.get("allowed") instanceof Boolean, verdict);
            return verdict;
        }
        List<?> list = (List<?>) reply;
        for (int i = 0; i < list.size(); i += 2) {
            verdict.put((String) list.get(i), list.get(i + 1));
        }
        verdict.put("allowed", (Long) verdict.get("allowed") == 1);
        return verdict;
    }

    static boolean is(Map<String, Object> verdict, boolean allowed, String reason) {
        return List.copyOf(verdict.keySet()).equals(FIELDS) && verdict.get("allowed").equals(allowed)
            && verdict.get("remaining").equals(0L) && verdict.get("limit").equals("2/h")
            && verdict.get("reason").equals(reason);
    }

    static void takeAndRefuse(Weir weir) throws Exception {
        String policy = "client" + weir.version;
        expect(weir.set("WEIR.POLICY", "SET", policy, "2/h").equals("OK"), "SET");
        Map<String, Object> one = weir.verdict("WEIR.TAKE", policy, "user:42", "2");
        expect(is(one, true, "ok") && one.get("retry_after_ms").equals(0L), one);
        long reset = (Long) one.get("reset_after_ms");
        expect(reset > HALF_AN_HOUR && reset <= 2 * HALF_AN_HOUR, one);
        Map<String, Object> two = weir.verdict("WEIR.TAKE", policy, "user:42");
        long wait = (Long) two.get("retry_after_ms");
        expect(is(two, false, "later") && wait > 0 && wait <= HALF_AN_HOUR, two);
        Map<String, Object> three = weir.verdict("WEIR.TAKE", policy, "user:42", "3");
        expect(is(three, false, "never") && three.get("retry_after_ms").equals(-1L), three);
    }

    static void commandsOfOthers(Weir weir) throws Exception {
        String key = "user:" + weir.version;
        Object cell = weir.ask("CL.THROTTLE", key, "15", "30", "60");
        expect(cell.equals(List.of(0L, 16L, 15L, -1L, 2L)), cell);
        for (long tokens = 2; tokens >= 0; tokens--) {
            expect(weir.number("RL.REDUCE", key, "2", "3600") == tokens, "RL.REDUCE");
        }
    }

    static void pipeline(Weir weir) throws Exception {
        weir.set("WEIR.POLICY", "SET", "many", "600/d", "FRESH");
        weir.connection.setAutoFlushCommands(false);
        List<RedisFuture<Object>> replies = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            replies.add(weir.send(new ObjectOutput<>(StringCodec.UTF8), "WEIR.TAKE", "many", "user:42"));
        }
        weir.connection.flushCommands();
        weir.connection.setAutoFlushCommands(true);
        for (int i = 0; i < 1000; i++) {
            Object reply = replies.get(i).get(20, TimeUnit.SECONDS);
            expect(verdictOf(reply, weir.version).get("allowed").equals(i < 600), i);
        }
    }

    static void acquire(Weir weir) throws Exception {
        weir.set("WEIR.POLICY", "SET", "pace", "20/s burst=1", "FRESH");
        long start = System.nanoTime();
        for (int i = 0; i < 3; i++) {
            Map<String, Object> verdict = weir.verdict("WEIR.ACQUIRE", "pace", "user:42", "TIMEOUT", "5000");
            expect(verdict.get("allowed").equals(true) && (Long) verdict.get("waited_ms") >= 0, verdict);
        }
        expect(System.nanoTime() - start >= 100_000_000, "three units at 20/s came too early");
    }

    static void namedUser(int version) throws Exception {
        String policy = "client" + version;
        try (Weir app = new Weir("app:secret", version)) {
            expect(app.verdict("WEIR.TAKE", policy, "user:43").get("allowed").equals(true), "app");
            fails("No permissions to access a key", () -> app.ask("WEIR.TAKE", policy, "org:7"));
            fails("no permissions to run", () -> app.set("WEIR.POLICY", "SET", "mine", "unlimited"));
        }
    }

    static Weir tell(int version) throws Exception {
        Weir weir = new Weir(":open%20sesame", version);
        expect(weir.connection.sync().ping().equals("PONG"), "PING");
        takeAndRefuse(weir);
        commandsOfOthers(weir);
        pipeline(weir);
        acquire(weir);
        fails("no policy 'nosuch'", () -> weir.ask("WEIR.TAKE", "nosuch", "user:42"));
        fails("WRONGPASS", () -> new Weir(":friend", version));
        namedUser(version);
        return weir;
    }

    static void example() {
        RedisClient client = RedisClient.create("redis://app:secret@" + ADDRESS);
        try (StatefulRedisConnection<String, String> weir = connect(client)) {
            for (boolean passes : new boolean[] {true, true, false}) {
                Map<?, ?> verdict = take(weir, 42);
                expect(verdict.get("allowed").equals(passes), verdict);
                expect(verdict.get("retry_after_ms").equals(0L) == passes, verdict);
            }
        }
        stop(client);
    }

    public static void main(String[] arguments) throws Exception {
        LogManager.getLogManager().reset(); // that it connects again is expected
        Weir[] both = {tell(3), tell(2)};
        example();
        System.out.println("restart");
        System.in.read();
        for (Weir weir : both) {
            takeAndRefuse(weir);
            weir.close();
        }
        System.out.println("ok");
    }
}
