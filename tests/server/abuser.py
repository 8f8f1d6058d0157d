# SPDX-License-Identifier: MIT
"""Connections that mean harm, as many as wanted, in one process: abuser.py PORT COUNT SEED resp|http|tls

Prints a line "ready" when all are connected. When its input ends so does it, and prints what they have done as JSON.
Works at a low priority: on one machine with the server they would else take its processors as well, which nobody far
away could.
"""

import base64
import collections
import errno
import json
import os
import random
import selectors
import socket
import ssl
import struct
import sys
import time

import server
import traffic

SOURCES = 20  # addresses they come from: one has ports for 28 000 only
RECEIVED = 1 << 18


class Abuser:
    """One of them: connects, does its harm, and begins again when it is thrown out."""

    small_window = False  # nothing that is answered fits
    deaf = False

    def __init__(self, crowd, number):
        self.crowd = crowd
        self.number = number
        self.dice = crowd.dice
        self.socket = None
        self.begin()

    # ---- what kinds differ in

    def say(self):
        """Bytes to say next; None: nothing more, for now or for ever."""
        raise NotImplementedError

    def heard(self, data):
        """What was answered."""

    def rested(self):
        """A time of rest is over."""

    # ---- what they share

    def begin(self):
        self.out = b""
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        if self.small_window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind((f"127.0.0.{10 + self.number % SOURCES}", 0))
        try:
            self.socket.connect(("127.0.0.1", self.crowd.port))
        except BlockingIOError:
            pass
        self.crowd.count["connected"] += 1
        self.watched = selectors.EVENT_WRITE
        self.crowd.selector.register(self.socket, self.watched, self)

    def watch(self, events):
        if events == self.watched:
            return
        if not self.watched:
            self.crowd.selector.register(self.socket, events, self)
        elif not events:
            self.crowd.selector.unregister(self.socket)
        else:
            self.crowd.selector.modify(self.socket, events, self)
        self.watched = events

    def leave(self, reset=False):
        """Goes, and comes back after a while."""
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.watch(0)
        self.socket.close()
        self.socket = None
        self.rest(self.dice.uniform(0.05, 0.5))

    def rest(self, seconds):
        self.crowd.resting.append((time.monotonic() + seconds, self))

    def wake(self):
        if self.socket is None:
            self.begin()
            return
        self.rested()
        self.turn()

    def turn(self, events=selectors.EVENT_WRITE):
        try:
            if events & selectors.EVENT_READ:
                self.hear()
            if self.socket and events & selectors.EVENT_WRITE:
                self.speak()
        except OSError as fault:
            self.crowd.count[errno.errorcode.get(fault.errno, "fault")] += 1
            if self.socket:
                self.leave()

    def hear(self):
        data = self.socket.recv(RECEIVED)
        if not data:
            self.crowd.count["thrown out"] += 1
            self.leave()
            return
        self.crowd.count["bytes heard"] += len(data)
        self.heard(data)

    def speak(self):
        if not self.out:
            self.out = self.say()
            if self.socket is None:
                return
        if self.out:
            try:
                sent = self.socket.send(self.out)
                self.crowd.count["bytes said"] += sent
                self.out = self.out[sent:]
            except BlockingIOError:
                pass
        listens = 0 if self.deaf else selectors.EVENT_READ
        self.watch(listens if self.out is None else listens | selectors.EVENT_WRITE)


class Deaf(Abuser):
    """Asks for much, and never reads."""
    small_window = True
    deaf = True
    chunk = server.encode("ECHO", "x" * 10000) * 6

    def say(self):
        return self.chunk


class Half(Abuser):
    """Half a request, and now and then a byte more."""
    byte = True

    def begin(self):
        self.said = False
        super().begin()

    def say(self):
        if not self.said:
            self.said = True
            return self.dice.choice((b"*3\r\n$9\r\nWEIR.T", b"*2\r\n$4\r\nECHO\r\n$60000\r\n", b"*1", b"PIN"))
        if self.byte:
            self.byte = False
            self.rest(self.dice.uniform(0.5, 2))
            return b"x"
        return None

    def rested(self):
        self.byte = True


class Garbage(Abuser):
    """What is no request."""

    def begin(self):
        self.left = 3
        super().begin()

    def say(self):
        self.left -= 1
        if self.left < 0:
            return None
        return self.dice.choice((self.dice.randbytes(self.dice.randrange(1, 4000)), b"*1000000000\r\n",
                                 b"*3\r\n$-5\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01" * 50,
                                 b"*1\r\n$4\r\nQUIX\r\n" * 100, b"x" * 70000))


class Giant(Abuser):
    """Ten thousand requests at once; reads, and rests."""
    chunk = server.encode("WEIR.TAKE", "crowd", "k") * 5000 + server.encode("WEIR.EXPLAIN", "crowd", "k") * 100 + \
        server.encode("PING") * 4900
    busy = True

    def begin(self):
        self.busy = True
        super().begin()

    def say(self):
        if not self.busy:
            return None
        self.busy = False
        self.rest(self.dice.uniform(1, 3))
        return self.chunk

    def rested(self):
        self.busy = True


class Storm(Abuser):
    """Comes and goes."""
    ask = server.encode("WEIR.TAKE", "crowd", "storm")

    def begin(self):
        self.asked = False
        super().begin()

    def say(self):
        if self.asked or self.dice.random() < 0.3:
            self.leave(reset=self.dice.random() < 0.5)
            return None
        self.asked = True
        return self.ask


class Login(Abuser):
    """Tries passwords."""

    def begin(self):
        self.tried = 0
        super().begin()

    def say(self):
        self.tried += 1
        if self.tried > 20:
            self.leave()
            return None
        return server.encode("AUTH", "operator", f"{self.dice.random()}") * 10


# ---- by HTTP


def http(method, path, body=b"", fields=""):
    return (f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{fields}"
            f"Content-Length: {len(body)}\r\n\r\n").encode("ascii") + body


class HttpDeaf(Deaf):
    chunk = http("GET", "/v1/openapi.json") * 20


class Drip(Half):
    """A head, a body or a chunk that never ends, a byte at a time."""

    def say(self):
        if not self.said:
            self.said = True
            return self.dice.choice((b"G", b"GET /v1/take/crowd/k HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
                                     http("POST", "/v1/take", b"x" * 60000)[:-50000],
                                     b"POST /v1/take HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                                     b"Content-Type: application/json\r\nContent-Length: 9000\r\n\r\n",
                                     b"POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                     b"Transfer-Encoding: chunked\r\n\r\n40000\r\n{"))
        return super().say()


class Endless(Abuser):
    """Header fields without an end."""

    def say(self):
        return b"GET / HTTP/1.1\r\n" + b"X-Field: %016x\r\n" % self.dice.getrandbits(64) * 100


class HttpGarbage(Garbage):
    def say(self):
        self.left -= 1
        if self.left < 0:
            return None
        return self.dice.choice((self.dice.randbytes(self.dice.randrange(1, 4000)), b"\x16\x03\x01\x02\x00\x01" * 50,
                                 server.encode("WEIR.TAKE", "crowd", "k") * 10, b"GET / HTTP/9.9\r\n\r\n",
                                 b"GET /" + b"x" * 70000, b"\r\n" * 30000, http("GET", "/", fields="Host: b\r\n"),
                                 http("POST", "/v1/take", fields="Transfer-Encoding: chunked\r\n"),
                                 b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999\r\n\r\n"))


class HttpGiant(Giant):
    """Thousands of requests at once, a thousand questions in each of some."""
    question = b'{"policy":"crowd","key":"k"}'
    batch = b'{"requests":[' + b",".join([question] * 1000) + b"]}"
    chunk = http("GET", "/v1/take/crowd/k") * 3000 + http("GET", "/v1/explain/crowd/k") * 100 + \
        http("POST", "/v1/batch", batch) * 2 + http("GET", "/nothing") * 1000


class Monster(Giant):
    """JSON that is deep, long, or no end of either."""

    def say(self):
        if not self.busy:
            return None
        self.busy = False
        self.rest(self.dice.uniform(0.2, 2))
        return http("POST", self.dice.choice(("/v1/take", "/v1/batch")),
                    self.dice.choice((b"[" * 500000, b'{"a":' * 100000, b'{"policy":"' + b"x" * 900000 + b'"}',
                                      b'{"requests":[' + b"[]," * 200000 + b"[]]}", b"1" * 100000,
                                      b'{"requests":[' + b",".join([HttpGiant.question] * 1001) + b"]}",
                                      b'{"key":"' + b"\\u0000" * 100000 + b'","policy":"crowd"}')))


class HttpStorm(Storm):
    ask = http("GET", "/v1/take/crowd/storm")


class HttpLogin(Login):
    """Each wrong one is thrown out."""

    def say(self):
        self.tried += 1
        if self.tried > 20:
            self.leave()
            return None
        guess = base64.b64encode(b"operator:" + self.dice.randbytes(6).hex().encode("ascii")).decode("ascii")
        return http("GET", "/v1/take/crowd/k", fields=f"Authorization: Basic {guess}\r\n") * 10


# ---- by TLS


class Greeting(Storm):
    """Says hello, lets the server compute its answer, and is gone, again and again."""

    def begin(self):
        self.ask = client_hello()[0]
        super().begin()

    def heard(self, data):
        self.leave()


class Dwelling(Half):
    """Half a hello, and now and then a byte more; or a whole one, and nothing."""

    def say(self):
        if not self.said:
            self.said = True
            hello = client_hello()[0]
            return hello[:self.dice.choice((1, 5, 50, len(hello)))]
        return super().say()


class TlsGarbage(Garbage):
    def say(self):
        self.left -= 1
        if self.left < 0:
            return None
        return self.dice.choice((self.dice.randbytes(self.dice.randrange(1, 4000)), b"PING\r\n", b"\x16\x03\x01\xff\xff" * 50,
                                 b"\x16\x03\x01\x00\x00" * 1000, client_hello()[0] + b"\x17\x03\x03\x00\x20" + b"x" * 32))


class Shaken(Abuser):
    """Finishes its handshake, then does as the class beside it."""

    def begin(self):
        self.hello, self.tls, self.incoming, self.outgoing = client_hello()
        self.shaken = False
        super().begin()

    def say(self):
        if not self.shaken:
            hello, self.hello = self.hello, b""
            return hello or None
        data = super().say()
        if data:
            self.tls.write(data)
        return self.outgoing.read() or None

    def hear(self):
        if self.shaken:
            super().hear()
            return
        data = self.socket.recv(RECEIVED)
        if not data:
            self.leave()
            return
        self.incoming.write(data)
        try:
            self.tls.do_handshake()
            self.shaken = True
        except ssl.SSLWantReadError:
            pass
        self.out = self.outgoing.read()
        self.watch(selectors.EVENT_READ | selectors.EVENT_WRITE)


class TlsDeaf(Shaken, Deaf):
    @property
    def deaf(self):
        return self.shaken


class TlsGiant(Shaken, Giant):
    """What it reads is not decrypted: that would cost this machine more than the server."""


class TlsStorm(Shaken, Storm):
    """A whole handshake for one request."""

    def begin(self):
        self.asked = False
        Shaken.begin(self)


CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = CONTEXT.wrap_bio(incoming, outgoing)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read(), tls, incoming, outgoing


KINDS = {"resp": (Deaf, Half, Garbage, Giant, Storm, Login),
         "http": (HttpDeaf, Drip, Endless, HttpGarbage, HttpGiant, Monster, HttpStorm, HttpLogin),
         "tls": (Greeting, Dwelling, TlsGarbage, TlsDeaf, TlsGiant, TlsStorm)}


class Crowd:
    def __init__(self, port, count, seed, protocol):
        self.port = port
        self.dice = random.Random(seed)
        self.count = collections.Counter()
        self.selector = selectors.EpollSelector()
        self.resting = collections.deque()
        self.all = [KINDS[protocol][number % len(KINDS[protocol])](self, number) for number in range(count)]

    def wake(self):
        now = time.monotonic()
        for _ in range(len(self.resting)):
            when, abuser = self.resting.popleft()
            if when <= now:
                abuser.wake()
            else:
                self.resting.append((when, abuser))

    def run(self, end):
        """Until this file has something to read, or ends."""
        self.selector.register(end, selectors.EVENT_READ)
        looked, over = 0.0, False
        while not over:
            now = time.monotonic()
            if now - looked > 0.02:
                self.wake()
                looked = now
            for key, events in self.selector.select(0.02):
                if key.fileobj is end:
                    over = True
                elif key.data.socket is key.fileobj:
                    key.data.turn(events)
        for abuser in self.all:
            if abuser.socket:
                abuser.socket.close()


def main():
    port, count, seed, protocol = sys.argv[1:]
    os.nice(10)
    traffic.raise_files()
    crowd = Crowd(int(port), int(count), int(seed), protocol)
    print("ready", flush=True)
    crowd.run(sys.stdin)
    print(json.dumps(crowd.count))


if __name__ == "__main__":
    main()
