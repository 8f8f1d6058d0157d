// SPDX-License-Identifier: MIT
//
// Random requests, valid and broken, read by weir's HTTP parser and by Node's own (llhttp, strict, driven directly):
//
//     node --no-deprecation http_differential.mjs PROGRAM COUNT [SEED]     PROGRAM is http-boundaries
//
// Laws:
//   1. Where weir sees the end of a request, so does Node: not a byte earlier or later.
//   2. Both see the same method, header fields and body.
//   3. While weir waits for more bytes, Node has seen no end, either.
//   4. What Node refuses, weir refuses or still waits for the rest of; `exceptions` says where not, and why.
// weir may refuse whatever it likes. Prints how often what happened; exit status 1 if a law was broken.
import { spawnSync } from "node:child_process";

const { HTTPParser, methods } = process.binding("http_parser");
const [program, countText, seedText = process.env.WEIR_SEED || "1"] = process.argv.slice(2);
const count = Number(countText);
console.log(`# seed ${seedText}, llhttp ${process.versions.llhttp}`);
const BATCH = 5000;

// ---- random numbers: mulberry32 ----

let state = Number(seedText) >>> 0;
function random() {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const chance = (p) => random() < p;
const times = (n, f) => Array.from({ length: n }, f);

// ---- requests, as strings of one character per byte ----

const INNER = "GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"; // in a body: whoever sees its end elsewhere, sees a request
const TARGETS = ["/", "/v1/take/api/user:42?n=3", "*", "http://a/x?y", "http://a", "HTTPS://a:80/", "/a%20b", "/?", "/\"<>{}|", "a", "/x#y", "//a"];
const FIELDS = ["Accept: */*", "User-Agent:\tx y\t", "X-Empty:", "X-Quote: \"a, b\"", "Cookie: a=b; c=d", "Expect: 100-continue",
    "Connection: keep-alive", "Connection: close", "connection: Keep-Alive, x", "Connection: upgrade", "Upgrade: h2c",
    "X-High: \xe4\xff", "Trailer: X", "Te: trailers", "Keep-Alive: 5", "Proxy-Connection: close"];
const BITS = ["\r", "\n", "\r\n", "\0", " ", "\t", "\x0b", "\x0c", "\x7f", "\x80", "\xff", ":", ",", ";", "#", "?", "+", "-", "0", "1", "a", "f", "x",
    "\r\n ", "\r\n\t", "\r\n\r\n", "\n\n", "\r\r\n", "Host: a\r\n", "Host: b\r\n", "Content-Length: 5\r\n", "Content-Length: 0\r\n",
    "Transfer-Encoding: identity\r\n", "content-length: 5, 5\r\n", "Content-Length: +5\r\n", "Content-Length: 0x5\r\n", "Content-Length : 5\r\n", "Content-Length:\r\n",
    "Content-Length: 18446744073709551621\r\n", "Content_Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: Chunked\r\n",
    "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked;x\r\n", "Transfer-Encoding:\r\n",
    "Transfer-Encoding: \x0bchunked\r\n", "Transfer-Encoding : chunked\r\n", "Transfer-Encoding\r\n: chunked\r\n", "Transfer-Encoding: xchunked\r\n",
    " Transfer-Encoding: chunked\r\n", "Connection: close\r\n", "0\r\n\r\n", "5\r\nhello\r\n", "5;a=b\r\n", "5 \r\n", "000000005\r\n", "0x5\r\n", "-1\r\n",
    "ffffffffffffffff\r\n", "100000000\r\n", "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "http/1.1", INNER];

function body() {
    return pick(["", "hello", INNER, "0\r\n\r\n", "a".repeat(below(40)), String.fromCharCode(...times(below(20), () => below(256)))]);
}

function chunks(text) {
    let out = "";
    while (text.length > 0) {
        const size = 1 + below(text.length);
        const digits = size.toString(16);
        out += "0".repeat(chance(0.1) ? below(9 - digits.length) : 0) + (chance(0.5) ? digits.toUpperCase() : digits);
        out += (chance(0.02) ? pick([";a", ";a=b", " ", ";a=\"b\""]) : "") + "\r\n" + text.slice(0, size) + "\r\n";
        text = text.slice(size);
    }
    return `${out}0\r\n${chance(0.2) ? pick(FIELDS) + "\r\n" : ""}\r\n`;
}

function request() {
    const fields = times(below(4), () => pick(FIELDS));
    fields.push(pick(["Host: a", "Host: a", "host:a ", "HOST:\ta:80", "Host: [::1]:9050"]));
    let sent = "";
    if (chance(0.6)) {
        sent = body();
        if (chance(0.5)) {
            fields.push(pick(["Transfer-Encoding: chunked", "transfer-encoding:CHUNKED "]));
            sent = chunks(sent);
        } else {
            fields.push(`${pick(["Content-Length", "content-length"])}: ${chance(0.1) ? "00" : ""}${sent.length}`);
        }
    }
    fields.sort(() => random() - 0.5);
    const method = chance(0.05) ? pick(["FOO", "get", "CONNECT", "PRI", "M-SEARCH"]) : pick(["GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH"]);
    const version = chance(0.05) ? pick(["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/1.11"]) : chance(0.15) ? "HTTP/1.0" : "HTTP/1.1";
    const target = chance(0.9) ? "/v1/take" : pick(TARGETS);
    return `${chance(0.05) ? "\r\n" : ""}${method} ${target} ${version}\r\n${fields.join("\r\n")}\r\n\r\n${sent}`;
}

function mutate(text) {
    const at = below(text.length + 1), end = Math.min(text.length, at + 1 + below(4));
    switch (below(7)) {
    case 0: return text.slice(0, at) + pick(BITS) + text.slice(at);
    case 1: return text.slice(0, at) + text.slice(end);
    case 2: return text.slice(0, at) + pick(BITS) + text.slice(end);
    case 3: return text.slice(0, at) + String.fromCharCode(below(256)) + text.slice(at + 1);
    case 4: { // a whole line more, which is where lengths come from
        const line = text.indexOf("\r\n", at);
        return line < 0 ? text : text.slice(0, line + 2) + pick(BITS) + text.slice(line + 2);
    }
    case 5: { // a line end of another kind
        const line = text.indexOf("\r\n", at);
        return line < 0 ? text : text.slice(0, line) + pick(["\n", "\r", "\r\r\n", "\r\n "]) + text.slice(line + 2);
    }
    default: { // a line twice
        const from = text.lastIndexOf("\n", at - 1) + 1, to = text.indexOf("\n", at) + 1;
        return to === 0 ? text : text.slice(0, to) + text.slice(from, to) + text.slice(to);
    }
    }
}

function draw() {
    let text = times(1 + below(3), request).join("");
    for (let left = chance(0.3) ? 0 : 1 + below(2); left > 0; left--)
        text = mutate(text);
    return Buffer.from(chance(0.05) ? text.slice(0, below(text.length)) : text, "latin1");
}

// ---- Node's parser ----

class Reader {
    constructor() {
        this.done = []; // requests that have ended
        this.error = null;
        this.parser = new HTTPParser();
        this.parser.initialize(HTTPParser.REQUEST, {}, 0, HTTPParser.kLenientNone);
        this.parser[HTTPParser.kOnMessageBegin] = () => { this.now = { fields: [], body: [] }; };
        this.parser[HTTPParser.kOnHeaders] = (list) => { this.now.fields.push(...list); }; // flushed early, or trailers
        this.parser[HTTPParser.kOnHeadersComplete] = (major, minor, list, method, url, status, reason, upgrade) => {
            this.now.upgrade = upgrade;
            this.now.method = methods[method];
            this.now.fields.push(...(list ?? []));
            this.now.count = this.now.fields.length;
            return 0;
        };
        this.parser[HTTPParser.kOnBody] = (bytes) => { this.now.body.push(Buffer.from(bytes)); };
        this.parser[HTTPParser.kOnMessageComplete] = () => { this.done.push(this.now); };
    }

    // Nothing is read after an error.
    feed(bytes) {
        if (this.error || bytes.length === 0)
            return;
        const got = this.parser.execute(bytes);
        if (got instanceof Error)
            this.error = got.code;
    }
}

// ---- comparing ----

const tally = {};
const tell = (what) => { tally[what] = (tally[what] ?? 0) + 1; };
let broken = 0;

function complain(law, bytes, more) {
    if (++broken <= 20)
        console.log(`law ${law}: ${more}\n    ${JSON.stringify(bytes.toString("latin1"))}`);
}

// What Node refuses and weir reads, and why that is right: none of it is about where a request ends. By llhttp's code,
// when it is all right for a request of that method, which ends where these bytes of the connection end.
const exceptions = {
    // RFC 9110, 9.1: a method is any token, and one that the server does not know gets an answer. llhttp has a list.
    HPE_INVALID_METHOD: (method) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(method) && !methods.includes(method),
    // RFC 9110, 5.6.3: white space around a value is spaces and tabs. llhttp takes no tab behind these two.
    HPE_INVALID_CONTENT_LENGTH: (method, bytes) => /\r\ncontent-length:[ \t]*\d+ *\t[ \t]*\r\n/i.test(bytes.toString("latin1")),
    HPE_INVALID_TRANSFER_ENCODING: (method, bytes) =>
        /\r\ntransfer-encoding:[ \t]*chunked *\t[ \t]*\r\n/i.test(bytes.toString("latin1")),
    // RFC 9112, C.2.2: Proxy-Connection is no field of HTTP. llhttp takes it for Connection, and close in it for the end.
    HPE_CLOSED_CONNECTION: (method, bytes) => /\r\nproxy-connection:/i.test(bytes.toString("latin1")),
};

const unhex = (text) => (text === "-" ? "" : Buffer.from(text, "hex").toString("latin1"));

function compare(bytes, lines) {
    let at = 0, reader = new Reader();
    for (const line of lines) {
        const [what, ...words] = line.split(" ");
        tell(what === "bad" ? `weir refuses: ${words[0]}` : `weir: ${what}`);
        if (what === "bad" || what === "end")
            return;
        if (what === "more") {
            const before = reader.done.length;
            reader.feed(bytes.subarray(at));
            if (reader.done.length > before)
                complain(3, bytes, "Node sees the end of a request while weir waits");
            if (reader.error)
                tell(`weir waits, Node refuses: ${reader.error}`);
            return;
        }
        const end = at + Number(words[0]), before = reader.done.length;
        const head = words.slice(2).map(unhex);
        reader.feed(bytes.subarray(at, end - 1));
        const early = reader.done.length > before;
        reader.feed(bytes.subarray(end - 1, end));
        if (early)
            return complain(1, bytes, `Node sees the end of a request before byte ${end}`);
        if (reader.error) {
            tell(`Node refuses, weir reads: ${reader.error}`);
            if (!exceptions[reader.error]?.(head[0], bytes.subarray(0, end)))
                complain(4, bytes, `Node refuses before byte ${end}: ${reader.error}`);
            return;
        }
        if (reader.done.length === before)
            return complain(1, bytes, `weir sees an end at byte ${end}, and Node does not`);
        const node = reader.done.at(-1);
        const same = [node.method, Buffer.concat(node.body).toString("latin1"), ...node.fields.slice(0, node.count)];
        if (JSON.stringify(same) !== JSON.stringify(head))
            return complain(2, bytes, `Node reads ${JSON.stringify(same)}, weir ${JSON.stringify(head)}`);
        if (node.upgrade)
            reader = new Reader(); // llhttp reads no further, for whoever answers 101. Nobody does, and HTTP goes on.
        at = end;
    }
}

for (let done = 0; done < count;) {
    const batch = times(Math.min(BATCH, count - done), draw);
    const input = Buffer.concat(batch.flatMap((bytes) => [Buffer.from(`${bytes.length}\n`), bytes]));
    const run = spawnSync(program, { input, maxBuffer: 1 << 28, encoding: "latin1" });
    if (run.status !== 0) {
        console.log(`${program} ended with ${run.status ?? run.signal}: ${run.stderr}`);
        process.exit(1);
    }
    const lines = run.stdout.split("\n");
    let line = 0;
    for (const bytes of batch) {
        const from = line;
        while (lines[line++].startsWith("whole"))
            ;
        compare(bytes, lines.slice(from, line));
    }
    done += batch.length;
}
for (const what of Object.keys(tally).sort())
    console.log(`${String(tally[what]).padStart(8)}  ${what}`);
console.log(`${broken} of ${count} break a law`);
process.exit(broken > 0 ? 1 : 0);
