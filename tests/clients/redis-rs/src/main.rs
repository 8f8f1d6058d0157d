// SPDX-License-Identifier: MIT
//
// redis-rs against a server; story.py says what happens.

use redis::{Client, Connection, FromRedisValue, ProtocolVersion, RedisError, RedisResult, Value, cmd, pipe};
use std::collections::HashMap;
use std::io::stdin;
use std::time::{Duration, Instant};

fn connect(url: &str) -> RedisResult<Connection> {
    Client::open(format!("{url}?protocol=resp3"))?.get_connection()
}

fn may_pass(weir: &mut Connection, user: u32) -> RedisResult<(bool, i64)> {
    let key = format!("user:{user}");
    let verdict: HashMap<String, Value> = cmd("WEIR.TAKE").arg("api").arg(key).query(weir)?;
    let wait = i64::from_redis_value_ref(&verdict["retry_after_ms"])?;
    Ok((bool::from_redis_value_ref(&verdict["allowed"])?, wait))
}

type Verdict = HashMap<String, Value>;

const HALF_AN_HOUR: i64 = 1800 * 1000;

fn url(login: &str) -> String {
    let port = std::env::var("WEIR_PORT").expect("WEIR_PORT");
    format!("redis://{login}@127.0.0.1:{port}")
}

fn client(login: &str, version: u8) -> Client {
    Client::open(format!("{}?protocol={version}", url(login))).expect("a good address")
}

fn ask<T: FromRedisValue>(weir: &mut Connection, words: &[&str]) -> RedisResult<T> {
    cmd(words[0]).arg(&words[1..]).query(weir)
}

fn fails(result: RedisResult<Value>, text: &str) {
    match result {
        Ok(reply) => panic!("should have failed with {text}, got {reply:?}"),
        Err(error) => assert!(error.to_string().contains(text), "{error}"),
    }
}

fn number(verdict: &Verdict, field: &str) -> i64 {
    i64::from_redis_value_ref(&verdict[field]).expect(field)
}

fn word(verdict: &Verdict, field: &str) -> String {
    String::from_redis_value_ref(&verdict[field]).expect(field)
}

// A map in version 3, a list of pairs in version 2: the library reads both as a map.
fn verdict_of(reply: &Value, version: u8) -> Verdict {
    assert_eq!(matches!(reply, Value::Map(_)), version == 3, "{reply:?}");
    let verdict = Verdict::from_redis_value_ref(reply).expect("pairs");
    assert_eq!(matches!(verdict["allowed"], Value::Boolean(_)), version == 3, "{reply:?}");
    verdict
}

fn allowed(verdict: &Verdict) -> bool {
    bool::from_redis_value_ref(&verdict["allowed"]).expect("allowed")
}

fn take(weir: &mut Connection, version: u8, n: &str) -> RedisResult<Verdict> {
    let reply: Value = ask(weir, &["WEIR.TAKE", &format!("client{version}"), "user:42", n])?;
    let verdict = verdict_of(&reply, version);
    assert_eq!((verdict.len(), word(&verdict, "limit")), (6, "2/h".to_string()));
    Ok(verdict)
}

fn take_and_refuse(weir: &mut Connection, version: u8) -> RedisResult<()> {
    let set: String = ask(weir, &["WEIR.POLICY", "SET", &format!("client{version}"), "2/h"])?;
    assert_eq!(set, "OK");
    let one = take(weir, version, "2")?;
    assert_eq!((allowed(&one), number(&one, "remaining"), number(&one, "retry_after_ms")), (true, 0, 0));
    assert_eq!(word(&one, "reason"), "ok");
    assert!((HALF_AN_HOUR + 1..=2 * HALF_AN_HOUR).contains(&number(&one, "reset_after_ms")));
    let two = take(weir, version, "1")?;
    assert_eq!((allowed(&two), number(&two, "remaining"), word(&two, "reason").as_str()), (false, 0, "later"));
    assert!((1..=HALF_AN_HOUR).contains(&number(&two, "retry_after_ms")));
    let three = take(weir, version, "3")?;
    assert_eq!((number(&three, "retry_after_ms"), word(&three, "reason").as_str()), (-1, "never"));
    Ok(())
}

fn commands_of_others(weir: &mut Connection, version: u8) -> RedisResult<()> {
    let key = format!("user:{version}");
    let cell: Vec<i64> = ask(weir, &["CL.THROTTLE", &key, "15", "30", "60"])?;
    assert_eq!(cell, [0, 16, 15, -1, 2]);
    for tokens in [2, 1, 0] {
        let left: i64 = ask(weir, &["RL.REDUCE", &key, "2", "3600"])?;
        assert_eq!(left, tokens);
    }
    Ok(())
}

fn pipeline(weir: &mut Connection, version: u8) -> RedisResult<()> {
    let _: Value = ask(weir, &["WEIR.POLICY", "SET", "many", "600/d", "FRESH"])?;
    let mut many = pipe();
    for _ in 0..1000 {
        many.cmd("WEIR.TAKE").arg("many").arg("user:42");
    }
    let replies: Vec<Value> = many.query(weir)?;
    assert_eq!(replies.len(), 1000);
    for (i, reply) in replies.iter().enumerate() {
        assert_eq!(allowed(&verdict_of(reply, version)), i < 600);
    }
    Ok(())
}

fn acquire(weir: &mut Connection, version: u8) -> RedisResult<()> {
    let _: Value = ask(weir, &["WEIR.POLICY", "SET", "pace", "20/s burst=1", "FRESH"])?;
    let start = Instant::now();
    for _ in 0..3 {
        let reply: Value = ask(weir, &["WEIR.ACQUIRE", "pace", "user:42", "TIMEOUT", "5000"])?;
        let verdict = verdict_of(&reply, version);
        assert!(allowed(&verdict) && verdict.len() == 7 && number(&verdict, "waited_ms") >= 0);
    }
    assert!(start.elapsed() >= Duration::from_millis(100), "three units at 20/s came too early");
    Ok(())
}

fn named_user(version: u8) -> RedisResult<()> {
    let app = &mut client("app:secret", version).get_connection()?;
    let policy = format!("client{version}");
    let taken: Value = ask(app, &["WEIR.TAKE", &policy, "user:43"])?;
    assert!(allowed(&verdict_of(&taken, version)));
    fails(ask(app, &["WEIR.TAKE", &policy, "org:7"]), "No permissions to access a key");
    fails(ask(app, &["WEIR.POLICY", "SET", "mine", "unlimited"]), "no permissions to run");
    Ok(())
}

fn story(version: u8) -> RedisResult<(Client, Connection)> {
    let client_of_default = client(":open%20sesame", version);
    let supports_maps = client_of_default.get_connection_info().redis_settings().protocol() == ProtocolVersion::RESP3;
    assert_eq!(supports_maps, version == 3);
    let mut weir = client_of_default.get_connection()?;
    assert_eq!(ask::<String>(&mut weir, &["PING"])?, "PONG");
    take_and_refuse(&mut weir, version)?;
    commands_of_others(&mut weir, version)?;
    pipeline(&mut weir, version)?;
    acquire(&mut weir, version)?;
    fails(ask(&mut weir, &["WEIR.TAKE", "nosuch", "user:42"]), "no policy 'nosuch'");
    let text = if version == 3 { "WRONGPASS" } else { "Password authentication failed" }; // its own words
    fails(client(":friend", version).get_connection().map(|_| Value::Nil), text);
    named_user(version)?;
    Ok((client_of_default, weir))
}

fn example() -> RedisResult<()> {
    let mut weir = connect(&url("app:secret"))?;
    for passes in [true, true, false] {
        let (allowed, wait) = may_pass(&mut weir, 42)?;
        assert_eq!((allowed, wait == 0), (passes, passes));
    }
    Ok(())
}

// A connection of this library is one connection: it notices that the server has gone, and the client makes another.
fn go_on((client, mut weir): (Client, Connection), version: u8) -> RedisResult<()> {
    let gone: RedisResult<String> = ask(&mut weir, &["PING"]);
    assert!(gone.is_err_and(|error: RedisError| error.is_connection_dropped()));
    take_and_refuse(&mut client.get_connection()?, version)
}

fn main() -> RedisResult<()> {
    let (three, two) = (story(3)?, story(2)?);
    example()?;
    println!("restart");
    stdin().read_line(&mut String::new())?;
    go_on(three, 3)?;
    go_on(two, 2)?;
    println!("ok");
    Ok(())
}
