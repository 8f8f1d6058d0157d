// SPDX-License-Identifier: MIT
//
// The fetch of Node against a server; story.py says what happens.

import { deepStrictEqual as expect } from "node:assert";
import { createInterface } from "node:readline/promises";

const BASE = `http://127.0.0.1:${process.env.WEIR_HTTP_PORT}`;
const basic = (user) => ({ authorization: `Basic ${btoa(user)}`, "content-type": "application/json" });
const ADMIN = basic("default:open sesame");

async function ask(method, path, body, headers = ADMIN) {
    const streamed = body instanceof ReadableStream;
    const text = body === undefined || streamed ? body : JSON.stringify(body);
    const response = await fetch(BASE + path, { method, headers, body: text, ...(streamed && { duplex: "half" }) });
    const said = await response.text();
    return { status: response.status, headers: response.headers, json: said ? JSON.parse(said) : null };
}

async function connections() {
    return (await ask("GET", "/v1/info?section=stats")).json.Stats.total_connections_received;
}

async function decide() {
    expect((await ask("PUT", "/v1/policies/client", { limits: "2/h", fresh: true })).json, { ok: true });
    const take = () => ask("POST", "/v1/take", { policy: "client", key: "user:42" });
    expect([(await take()).status, (await take()).status], [200, 200]);
    const refused = await take();
    expect([refused.status, refused.json.reason], [429, "later"]);
    const seconds = Number(refused.headers.get("retry-after"));
    expect(1700 < seconds && seconds <= 1800, true);
    expect(refused.headers.get("ratelimit-policy"), '"client";q=2;w=3600');
    expect((await ask("GET", "/v1/take/client/user:42?n=3")).headers.get("retry-after"), null);
    expect((await ask("GET", "/v1/take/client/ä b/c")).json.allowed, true); // the library encodes it
    expect((await ask("GET", "/v1/peek/client/%C3%A4%20b/c")).json.used, 1);
}

// In chunks, as a body whose length is not known.
async function upload() {
    await ask("PUT", "/v1/policies/many", { limits: "60/d", fresh: true });
    const one = '{"policy":"many","key":"user:42"}';
    const pieces = ['{"requests":[', ...Array(99).fill(one + ","), one, "]}"];
    const body = ReadableStream.from(pieces.map((piece) => new TextEncoder().encode(piece)));
    const { answers } = (await ask("POST", "/v1/batch", body)).json;
    expect(answers.map((answer) => answer.allowed), [...Array(60).fill(true), ...Array(40).fill(false)]);
}

async function wait() {
    await ask("PUT", "/v1/policies/pace", { limits: "20/s burst=1", fresh: true });
    const start = performance.now();
    for (let i = 0; i < 3; i++) {
        expect((await ask("POST", "/v1/acquire", { policy: "pace", key: "k", timeout_ms: 5000 })).status, 200);
    }
    expect(performance.now() - start >= 100, true);
}

async function mistakes() {
    expect((await ask("GET", "/v1/take/nosuch/k")).status, 404);
    expect((await ask("DELETE", "/v1/take")).headers.get("allow"), "POST");
    expect([(await ask("HEAD", "/livez")).status, (await ask("HEAD", "/livez")).json], [200, null]);
    expect((await ask("GET", "/v1/policies", undefined, basic("default:friend"))).status, 401);
    expect((await ask("GET", "/v1/take/api/user:43", undefined, basic("app:secret"))).status, 200);
    expect((await ask("GET", "/v1/take/api/org:7", undefined, basic("app:secret"))).status, 403);
}

const before = await connections();
await decide();
await wait();
expect((await connections()) - before < 3, true); // its pool may have opened another one
await upload();
await mistakes();
console.log("restart");
const input = createInterface({ input: process.stdin });
await new Promise((resolve) => input.once("line", resolve));
input.close();
await decide();
console.log("ok");
process.exit(0); // connections that are kept alive would keep it alive
