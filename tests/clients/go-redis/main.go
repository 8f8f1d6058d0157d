// SPDX-License-Identifier: MIT
//
// go-redis against a server; story.py says what happens.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func connect(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

func mayPass(ctx context.Context, weir *redis.Client, user int) (bool, int64, error) {
	reply, err := weir.Do(ctx, "WEIR.TAKE", "api", fmt.Sprintf("user:%d", user)).Result()
	if err != nil {
		return false, 0, err
	}
	verdict := reply.(map[interface{}]interface{})
	return verdict["allowed"].(bool), verdict["retry_after_ms"].(int64), nil
}

var ctx = context.Background()

type verdict map[string]any

const halfAnHour = 1800 * 1000

func expect(isSo bool, what ...any) {
	if !isSo {
		panic(fmt.Sprint(what...))
	}
}

func url(login string) string {
	return "redis://" + login + "@127.0.0.1:" + os.Getenv("WEIR_PORT")
}

func open(login string, version int) *redis.Client {
	options, err := redis.ParseURL(url(login))
	expect(err == nil, err)
	options.Protocol = version
	return redis.NewClient(options)
}

func ask(weir *redis.Client, words ...any) any {
	reply, err := weir.Do(ctx, words...).Result()
	expect(err == nil, words, err)
	return reply
}

func fails(weir *redis.Client, text string, words ...any) {
	reply, err := weir.Do(ctx, words...).Result()
	expect(err != nil && strings.Contains(err.Error(), text), words, reply, err)
}

// A map in version 3, a list of pairs in version 2.
func verdictOf(reply any, version int) verdict {
	result := verdict{}
	if version == 3 {
		for name, value := range reply.(map[interface{}]interface{}) {
			result[name.(string)] = value
		}
		return result
	}
	pairs := reply.([]any)
	for i := 0; i < len(pairs); i += 2 {
		result[pairs[i].(string)] = pairs[i+1]
	}
	result["allowed"] = result["allowed"].(int64) == 1
	return result
}

func is(v verdict, allowed bool, remaining int64, reason string) bool {
	return len(v) == 6 && v["allowed"] == allowed && v["remaining"] == remaining && v["reason"] == reason &&
		v["limit"] == "2/h" && v["reset_after_ms"].(int64) <= 2*halfAnHour
}

func takeAndRefuse(weir *redis.Client, version int) {
	policy := fmt.Sprintf("client%d", version)
	expect(ask(weir, "WEIR.POLICY", "SET", policy, "2/h") == "OK", "SET")
	take := func(n int) verdict {
		return verdictOf(ask(weir, "WEIR.TAKE", policy, "user:42", n), version)
	}
	one := take(2)
	expect(is(one, true, 0, "ok") && one["retry_after_ms"] == int64(0), one)
	expect(one["reset_after_ms"].(int64) > halfAnHour, one)
	two := take(1)
	wait := two["retry_after_ms"].(int64)
	expect(is(two, false, 0, "later") && 0 < wait && wait <= halfAnHour, two)
	three := take(3)
	expect(is(three, false, 0, "never") && three["retry_after_ms"] == int64(-1), three)
}

func commandsOfOthers(weir *redis.Client, version int) {
	key := fmt.Sprintf("user:%d", version)
	reply, err := weir.Do(ctx, "CL.THROTTLE", key, 15, 30, 60).Int64Slice()
	expect(err == nil && slices.Equal(reply, []int64{0, 16, 15, -1, 2}), reply, err)
	for _, tokens := range []int64{2, 1, 0} {
		expect(ask(weir, "RL.REDUCE", key, 2, 3600) == tokens, "RL.REDUCE")
	}
}

func pipeline(weir *redis.Client, version int) {
	ask(weir, "WEIR.POLICY", "SET", "many", "600/d", "FRESH")
	many := weir.Pipeline()
	for range 1000 {
		many.Do(ctx, "WEIR.TAKE", "many", "user:42")
	}
	replies, err := many.Exec(ctx)
	expect(err == nil && len(replies) == 1000, err)
	for i, reply := range replies {
		expect(verdictOf(reply.(*redis.Cmd).Val(), version)["allowed"] == (i < 600), i, reply)
	}
}

func acquire(weir *redis.Client, version int) {
	ask(weir, "WEIR.POLICY", "SET", "pace", "20/s burst=1", "FRESH")
	start := time.Now()
	for range 3 {
		got := verdictOf(ask(weir, "WEIR.ACQUIRE", "pace", "user:42", "TIMEOUT", 5000), version)
		expect(got["allowed"] == true && len(got) == 7 && got["waited_ms"].(int64) >= 0, got)
	}
	expect(time.Since(start) >= 100*time.Millisecond, "three units at 20/s came too early")
}

func namedUser(version int) {
	app := open("app:secret", version)
	defer app.Close()
	policy := fmt.Sprintf("client%d", version)
	expect(verdictOf(ask(app, "WEIR.TAKE", policy, "user:43"), version)["allowed"] == true, "app")
	fails(app, "No permissions to access a key", "WEIR.TAKE", policy, "org:7")
	fails(app, "no permissions to run", "WEIR.POLICY", "SET", "mine", "unlimited")
}

func story(version int) *redis.Client {
	weir := open(":open%20sesame", version)
	expect(weir.Ping(ctx).Val() == "PONG", "PING")
	takeAndRefuse(weir, version)
	commandsOfOthers(weir, version)
	pipeline(weir, version)
	acquire(weir, version)
	fails(weir, "no policy 'nosuch'", "WEIR.TAKE", "nosuch", "user:42")
	stranger := open(":friend", version)
	fails(stranger, "WRONGPASS", "PING")
	stranger.Close()
	namedUser(version)
	return weir
}

func example() {
	weir, err := connect(url("app:secret"))
	expect(err == nil, err)
	defer weir.Close()
	for _, passes := range []bool{true, true, false} {
		allowed, wait, err := mayPass(ctx, weir, 42)
		expect(err == nil && allowed == passes && (wait == 0) == passes, allowed, wait, err)
	}
}

func main() {
	clients := map[int]*redis.Client{3: story(3), 2: story(2)}
	example()
	fmt.Println("restart")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for version, weir := range clients {
		takeAndRefuse(weir, version)
		weir.Close()
	}
	fmt.Println("ok")
}
