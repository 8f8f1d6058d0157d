// SPDX-License-Identifier: MIT
//
// node-redis against a server; story.py says what happens.

import { createClient } from "redis";
import { expect, expectError, story } from "./story.mjs";

function connect(url) {
    return createClient({ url, RESP: 3 }).on("error", console.error).connect();
}

async function mayPass(weir, user) {
    const verdict = await weir.sendCommand(["WEIR.TAKE", "api", `user:${user}`]);
    return [verdict.allowed, verdict.retry_after_ms];
}

class Client {
    constructor(url, version) {
        this.errors = [];
        // A server that has gone away is told as an event; the client connects again by itself.
        this.client = createClient({ url, RESP: version, socket: { reconnectStrategy: 50 } });
        this.client.on("error", (error) => this.errors.push(error));
    }

    async open() {
        await this.client.connect();
    }

    ask(...words) {
        return this.client.sendCommand(words.map(String));
    }

    // Commands that are sent in one turn of the loop are one pipeline.
    pipeline(requests) {
        return Promise.all(requests.map((words) => this.client.sendCommand(words)));
    }

    close() {
        this.client.destroy();
    }
}

async function example(url) {
    const weir = await connect(url);
    const passed = [await mayPass(weir, 42), await mayPass(weir, 42), await mayPass(weir, 42)];
    expect(passed.map((pass) => pass[0]), [true, true, false]);
    expect(passed[2][1] > 0, true);
    weir.destroy();
}

async function wrongPassword(url, version) {
    const client = createClient({ url, RESP: version, socket: { reconnectStrategy: false } });
    client.on("error", () => {});
    await expectError("WRONGPASS", client.connect());
    if (client.isOpen) client.destroy();
}

await story({ Client, example, wrongPassword, versions: [3, 2] });
