// SPDX-License-Identifier: MIT
//
// ioredis against a server; story.py says what happens.

import { Redis } from "ioredis";
import { expect, expectError, story } from "./story.mjs";

function connect(url) {
    return new Redis(url, { replyMapping: "resp3" });
}

async function mayPass(weir, user) {
    const verdict = await weir.call("WEIR.TAKE", "api", `user:${user}`);
    return [verdict.allowed, verdict.retry_after_ms];
}

class Client {
    constructor(url, version) {
        const mapping = version === 3 ? { replyMapping: "resp3" } : {};
        this.client = new Redis(url, { protocol: version, ...mapping, lazyConnect: true, retryStrategy: () => 50 });
        this.client.on("error", () => {}); // it connects again by itself
    }

    open() {
        return this.client.connect();
    }

    ask(...words) {
        return this.client.call(...words);
    }

    async pipeline(requests) {
        const replies = await this.client.pipeline(requests.map((words) => ["call", ...words])).exec();
        return replies.map(([error, reply]) => {
            expect(error, null);
            return reply;
        });
    }

    close() {
        this.client.disconnect();
    }
}

async function example(url) {
    const weir = connect(url);
    const passed = [await mayPass(weir, 42), await mayPass(weir, 42), await mayPass(weir, 42)];
    expect(passed.map((pass) => pass[0]), [true, true, false]);
    expect(passed[2][1] > 0, true);
    weir.disconnect();
}

// ioredis tells a refused login as an event.
async function wrongPassword(url, version) {
    const client = new Redis(url, { protocol: version, lazyConnect: true, retryStrategy: null });
    const told = new Promise((_, reject) => client.once("error", reject));
    client.connect().catch(() => {});
    await expectError("WRONGPASS", told);
    client.disconnect();
}

await story({ Client, example, wrongPassword, versions: [3, 2] });
