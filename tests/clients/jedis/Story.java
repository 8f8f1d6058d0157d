// SPDX-License-Identifier: MIT
//
// Jedis against a server; story.py says what happens.

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import redis.clients.jedis.BuilderFactory;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.KeyValue;

public class Story {
    static final ProtocolCommand TAKE = () -> "WEIR.TAKE".getBytes();

    static RedisClient connect(String url) {
        return RedisClient.create(url);
    }

    static Map<String, Object> take(RedisClient weir, int user) {
        CommandArguments words = new CommandArguments(TAKE).add("api").add("user:" + user);
        return weir.executeCommand(new CommandObject<>(words, BuilderFactory.ENCODED_OBJECT_MAP));
    }

    static final String ADDRESS = "127.0.0.1:" + System.getenv("WEIR_PORT");
    static final List<String> FIELDS =
        List.of("allowed", "remaining", "retry_after_ms", "reset_after_ms", "limit", "reason");
    static final long HALF_AN_HOUR = 1800 * 1000;

    static void expect(boolean isSo, Object what) {
        if (!isSo) {
            throw new AssertionError(what);
        }
    }

    static RedisClient open(String user, String password, int version) {
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().user(user).password(password)
            .protocol(version == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2).build();
        String[] parts = ADDRESS.split(":");
        return RedisClient.builder().hostAndPort(parts[0], Integer.parseInt(parts[1])).clientConfig(config).build();
    }

    static ProtocolCommand command(String name) {
        return () -> name.getBytes();
    }

    static CommandArguments request(String... words) {
        return new CommandArguments(command(words[0])).addObjects((Object[]) Arrays.copyOfRange(words, 1, words.length));
    }

    static Object ask(RedisClient weir, String... words) {
        Object reply = weir.executeCommand(request(words));
        return reply instanceof byte[] bytes ? new String(bytes) : reply;
    }

    static void fails(RedisClient weir, String text, String... words) {
        try {
            throw new AssertionError(text + " was expected, not " + ask(weir, words));
        } catch (JedisException error) {
            boolean isSo = false;
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                isSo = isSo || String.valueOf(cause.getMessage()).contains(text);
            }
            expect(isSo, error);
        }
    }

    /** A map, that is a list of KeyValue, in version 3; a list of pairs in version 2. */
    static Map<String, Object> verdictOf(Object reply, int version) {
        Map<String, Object> verdict = new LinkedHashMap<>();
        if (version == 3) {
            for (Object item : (List<?>) reply) {
                KeyValue<?, ?> pair = (KeyValue<?, ?>) item;
                verdict.put(text(pair.getKey()), pair.getValue());
            }
            expect(verdict.get("allowed") instanceof Boolean, verdict);
            return verdict;
        }
        List<?> list = (List<?>) reply;
        for (int i = 0; i < list.size(); i += 2) {
            verdict.put(text(list.get(i)), list.get(i + 1));
        }
        verdict.put("allowed", (Long) verdict.get("allowed") == 1);
        return verdict;
    }

    static String text(Object bytes) {
        return new String((byte[]) bytes);
    }

    static boolean is(Map<String, Object> verdict, boolean allowed, String reason) {
        return List.copyOf(verdict.keySet()).equals(FIELDS) && verdict.get("allowed").equals(allowed)
            && verdict.get("remaining").equals(0L) && text(verdict.get("limit")).equals("2/h")
            && text(verdict.get("reason")).equals(reason);
    }

    static void takeAndRefuse(RedisClient weir, int version) {
        String policy = "client" + version;
        expect(ask(weir, "WEIR.POLICY", "SET", policy, "2/h").equals("OK"), "SET");
        Map<String, Object> one = verdictOf(ask(weir, "WEIR.TAKE", policy, "user:42", "2"), version);
        expect(is(one, true, "ok") && one.get("retry_after_ms").equals(0L), one);
        long reset = (Long) one.get("reset_after_ms");
        expect(reset > HALF_AN_HOUR && reset <= 2 * HALF_AN_HOUR, one);
        Map<String, Object> two = verdictOf(ask(weir, "WEIR.TAKE", policy, "user:42"), version);
        long wait = (Long) two.get("retry_after_ms");
        expect(is(two, false, "later") && wait > 0 && wait <= HALF_AN_HOUR, two);
        Map<String, Object> three = verdictOf(ask(weir, "WEIR.TAKE", policy, "user:42", "3"), version);
        expect(is(three, false, "never") && three.get("retry_after_ms").equals(-1L), three);
    }

    static void commandsOfOthers(RedisClient weir, int version) {
        String key = "user:" + version;
        Object cell = ask(weir, "CL.THROTTLE", key, "15", "30", "60");
        expect(cell.equals(List.of(0L, 16L, 15L, -1L, 2L)), cell);
        for (long tokens = 2; tokens >= 0; tokens--) {
            expect(ask(weir, "RL.REDUCE", key, "2", "3600").equals(tokens), "RL.REDUCE");
        }
    }

    static void pipeline(RedisClient weir, int version) {
        ask(weir, "WEIR.POLICY", "SET", "many", "600/d", "FRESH");
        try (Pipeline many = weir.pipelined()) {
            for (int i = 0; i < 1000; i++) {
                many.sendCommand(TAKE, "many", "user:42");
            }
            List<Object> replies = many.syncAndReturnAll();
            expect(replies.size() == 1000, replies.size());
            for (int i = 0; i < 1000; i++) {
                expect(verdictOf(replies.get(i), version).get("allowed").equals(i < 600), i);
            }
        }
    }

    static void acquire(RedisClient weir, int version) {
        ask(weir, "WEIR.POLICY", "SET", "pace", "20/s burst=1", "FRESH");
        long start = System.nanoTime();
        for (int i = 0; i < 3; i++) {
            CommandArguments words = request("WEIR.ACQUIRE", "pace", "user:42", "TIMEOUT", "5000").blocking();
            Map<String, Object> verdict = verdictOf(weir.executeCommand(words), version);
            expect(verdict.get("allowed").equals(true) && (Long) verdict.get("waited_ms") >= 0, verdict);
        }
        expect(System.nanoTime() - start >= 100_000_000, "three units at 20/s came too early");
    }

    static void namedUser(int version) {
        String policy = "client" + version;
        try (RedisClient app = open("app", "secret", version)) {
            expect(verdictOf(ask(app, "WEIR.TAKE", policy, "user:43"), version).get("allowed").equals(true), "app");
            fails(app, "No permissions to access a key", "WEIR.TAKE", policy, "org:7");
            fails(app, "no permissions to run", "WEIR.POLICY", "SET", "mine", "unlimited");
        }
    }

    static void tell(RedisClient weir, int version) {
        expect(weir.ping().equals("PONG"), "PING");
        takeAndRefuse(weir, version);
        commandsOfOthers(weir, version);
        pipeline(weir, version);
        acquire(weir, version);
        fails(weir, "no policy 'nosuch'", "WEIR.TAKE", "nosuch", "user:42");
        try (RedisClient stranger = open(null, "friend", version)) {
            fails(stranger, "WRONGPASS", "PING");
        }
        namedUser(version);
    }

    static void example() {
        try (RedisClient weir = connect("redis://app:secret@" + ADDRESS)) {
            for (boolean passes : new boolean[] {true, true, false}) {
                Map<String, Object> verdict = take(weir, 42);
                expect(verdict.get("allowed").equals(passes), verdict);
                expect(verdict.get("retry_after_ms").equals(0L) == passes, verdict);
            }
        }
    }

    /** The pool still holds a connection that has ended: it says so once, and makes another. */
    static void goOn(RedisClient weir, int version) {
        for (int failures = 0;; failures++) {
            try {
                weir.ping();
                break;
            } catch (JedisConnectionException error) {
                expect(failures < 10, error);
            }
        }
        takeAndRefuse(weir, version);
        weir.close();
    }

    public static void main(String[] arguments) throws Exception {
        RedisClient three = open(null, "open sesame", 3);
        RedisClient two = open(null, "open sesame", 2);
        tell(three, 3);
        tell(two, 2);
        example();
        System.out.println("restart");
        System.in.read();
        goOn(three, 3);
        goOn(two, 2);
        System.out.println("ok");
    }
}
