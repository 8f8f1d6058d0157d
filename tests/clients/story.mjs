// SPDX-License-Identifier: MIT
//
// The story of story.py for libraries of Node. A library gives a Client: open, ask, pipeline, close.

import { deepStrictEqual } from "node:assert";
import { createInterface } from "node:readline/promises";

const ADDRESS = `127.0.0.1:${process.env.WEIR_PORT}`;
const DEFAULT = `redis://:open%20sesame@${ADDRESS}`;
const APP = `redis://app:secret@${ADDRESS}`;
const WRONG = `redis://:friend@${ADDRESS}`;
const FIELDS = ["allowed", "remaining", "retry_after_ms", "reset_after_ms", "limit", "reason"];
const HALF_AN_HOUR = 1800 * 1000;

export const expect = deepStrictEqual;

export async function expectError(text, promise) {
    let reply;
    try {
        reply = await promise;
    } catch (error) {
        expect(error.message.includes(text) || error.message, true);
        return;
    }
    throw new Error(`should have failed with ${text}, got ${JSON.stringify(reply)}`);
}

// A map in version 3, a list of pairs in version 2.
function verdictOf(reply, version) {
    if (version === 3) {
        expect([Array.isArray(reply), typeof reply.allowed], [false, "boolean"]);
        return { ...reply };
    }
    expect(Array.isArray(reply), true);
    const verdict = {};
    for (let i = 0; i < reply.length; i += 2) verdict[reply[i]] = reply[i + 1];
    verdict.allowed = [false, true][verdict.allowed];
    return verdict;
}

async function takeAndRefuse(weir, version) {
    const policy = `client${version}`;
    expect(await weir.ask("WEIR.POLICY", "SET", policy, "2/h"), "OK");
    async function take(n) {
        const verdict = verdictOf(await weir.ask("WEIR.TAKE", policy, "user:42", n), version);
        expect(Object.keys(verdict), FIELDS);
        expect(verdict.limit, "2/h");
        return verdict;
    }
    const one = await take(2);
    expect([one.allowed, one.remaining, one.retry_after_ms, one.reason], [true, 0, 0, "ok"]);
    expect(HALF_AN_HOUR < one.reset_after_ms && one.reset_after_ms <= 2 * HALF_AN_HOUR, true);
    const two = await take(1);
    expect([two.allowed, two.remaining, two.reason], [false, 0, "later"]);
    expect(0 < two.retry_after_ms && two.retry_after_ms <= HALF_AN_HOUR, true);
    const three = await take(3);
    expect([three.allowed, three.retry_after_ms, three.reason], [false, -1, "never"]);
}

async function commandsOfOthers(weir, version) {
    const key = `user:${version}`;
    expect(await weir.ask("CL.THROTTLE", key, 15, 30, 60), [0, 16, 15, -1, 2]);
    for (const tokens of [2, 1, 0]) expect(await weir.ask("RL.REDUCE", key, 2, 3600), tokens);
}

async function pipeline(weir, version) {
    await weir.ask("WEIR.POLICY", "SET", "many", "600/d", "FRESH");
    const replies = await weir.pipeline(Array(1000).fill(["WEIR.TAKE", "many", "user:42"]));
    const allowed = replies.map((reply) => verdictOf(reply, version).allowed);
    expect(allowed, [...Array(600).fill(true), ...Array(400).fill(false)]);
}

async function acquire(weir, version) {
    await weir.ask("WEIR.POLICY", "SET", "pace", "20/s burst=1", "FRESH");
    const start = performance.now();
    for (let i = 0; i < 3; i++) {
        const verdict = verdictOf(await weir.ask("WEIR.ACQUIRE", "pace", "user:42", "TIMEOUT", 5000), version);
        expect([verdict.allowed, Object.keys(verdict)], [true, [...FIELDS, "waited_ms"]]);
    }
    expect(performance.now() - start >= 100, true);
}

async function namedUser(Client, version) {
    const app = new Client(APP, version);
    await app.open();
    expect(verdictOf(await app.ask("WEIR.TAKE", `client${version}`, "user:43"), version).allowed, true);
    await expectError("No permissions to access a key", app.ask("WEIR.TAKE", `client${version}`, "org:7"));
    await expectError("no permissions to run", app.ask("WEIR.POLICY", "SET", "mine", "unlimited"));
    app.close();
}

async function tell({ Client, wrongPassword }, version) {
    const weir = new Client(DEFAULT, version);
    await weir.open();
    expect(await weir.ask("PING"), "PONG");
    await takeAndRefuse(weir, version);
    await commandsOfOthers(weir, version);
    await pipeline(weir, version);
    await acquire(weir, version);
    await expectError("no policy 'nosuch'", weir.ask("WEIR.TAKE", "nosuch", "user:42"));
    await wrongPassword(WRONG, version);
    await namedUser(Client, version);
    return weir;
}

// What was asked while the server was away may fail; the client itself goes on.
async function untilItAnswers(weir) {
    const deadline = performance.now() + 20000;
    for (;;) {
        try {
            return await weir.ask("PING");
        } catch (error) {
            if (performance.now() > deadline) throw error;
        }
    }
}

export async function story(library) {
    const clients = [];
    for (const version of library.versions) clients.push([version, await tell(library, version)]);
    await library.example(APP);
    console.log("restart");
    const input = createInterface({ input: process.stdin });
    await new Promise((resolve) => input.once("line", resolve));
    input.close();
    for (const [version, weir] of clients) {
        expect(await untilItAnswers(weir), "PONG");
        await takeAndRefuse(weir, version);
        weir.close();
    }
    console.log("ok");
}
