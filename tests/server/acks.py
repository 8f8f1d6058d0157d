# SPDX-License-Identifier: MIT
"""A ledger of acknowledgements, kept outside of the server, and a load that fills it.

    book = acks.Book(random.Random(seed))
    load = acks.Load(book, weir)             several connections, pipelines, everything that changes something
    load = acks.Load(book, weir, http=True)  the same by HTTP: single requests and batches
    load.run(seconds)                        returns earlier if the server is killed
    load.close()                             what was not answered by now may have been done, or not
    book.look(another)                       compares with what this or another server has kept; raises Fault

Limits refill so slowly that nothing comes back meanwhile. So what a key has used is at least what was answered, and at
most what was asked: less was lost, more was charged twice. `book.adopt` takes what a server has as what is true, which
ends the uncertainty of requests that were cut off.
"""

import bisect
import collections
import json
import re
import select
import time

import http_client
import server

CONFIG = """
memory: 32MiB
policies:
  - {name: hot, limits: 1/h burst=200k}
  - {name: day, limits: 1/h burst=1k, ids: 24h, reserve: {ttl: 24h}}
  - {name: ring, limits: 60/365d algo=sliding-log}
  - {name: fixed, limits: 1k/365d algo=fixed-window}
  - {name: slide, limits: 1k/365d algo=sliding-window}
  - {name: two, limits: [1/h burst=1k, 1/2h burst=2k]}
"""
SIZES = {"hot": 200000, "day": 1000, "ring": 60, "fixed": 1000, "slide": 1000, "two": 1000, "mine": 1000, "cl": 100,
         "rl": 1000}
KEYS = {"hot": 1, "day": 60, "ring": 60, "fixed": 30, "slide": 30, "two": 60, "mine": 10, "cl": 40, "rl": 40}
REFILL_SECONDS = 3600 / 9  # the fastest of them: `mine`, whose rate changes
CELL = ("99", "1", "26000")
SMYTE = ("1000", "2600000")
LINES = 4
BATCH = 30
FLIGHT = 90  # requests of a connection that are not answered yet
IDS_LOOKED_AT = 20
EARLY_MS = 10000
VOID = "cannot be settled any more"


class Fault(AssertionError):
    """What was kept does not agree with what was answered."""


class Account:
    """One key: what it has used for sure, and what it may have used."""

    def __init__(self, kind, key):
        self.kind, self.key, self.size = kind, key, SIZES[kind]
        self.restart(0)

    def restart(self, used):
        """From here on it is known."""
        self.base = used
        self.asked = [0, 0]  # up and down
        self.acked = [0, 0]
        self.withdrawn = 0
        self.again = 0  # may be there twice: it was cut off, its charge was kept and its answer was not
        self.times, self.then = [], []  # when it was acked, and what `acked` was from then on

    def ask(self, delta):
        self.asked[delta < 0] += abs(delta)

    def withdraw(self, delta):
        """It was refused."""
        self.asked[delta < 0] -= abs(delta)
        self.withdrawn += abs(delta)

    def ack(self, delta, now):
        self.acked[delta < 0] += abs(delta)
        self.times.append(now)
        self.then.append(tuple(self.acked))

    def bounds(self, until=None):
        """With what was acknowledged by then; the rest may or may not have been."""
        up, down = self.acked
        if until is not None:
            place = bisect.bisect_right(self.times, until)
            up, down = self.then[place - 1] if place else (0, 0)
        return max(self.base + up - self.asked[1], 0), self.base + self.asked[0] - down

    def lost_since(self, used):
        """When that was answered which is missing if it has used no more than this; None: nothing is."""
        for when, (up, _) in zip(self.times, self.then):
            if self.base + up - self.asked[1] > used:
                return when
        return None

    def sure_room(self):
        """To be compared with what it is later: see most_since."""
        return self.acked[1] + self.withdrawn

    def most_since(self, room):
        """The most that it can have used at any moment since then."""
        return self.base + self.asked[0] + self.withdrawn - room

    def question(self):
        if self.kind == "cl":
            return ("CL.THROTTLE", self.key, *CELL, "0")
        if self.kind == "rl":
            return ("RL.GET", self.key, *SMYTE)
        return ("WEIR.PEEK", self.kind, self.key)

    def used(self, reply):
        if isinstance(reply, server.Error):
            raise Fault(f"{self.kind} {self.key}: {reply}")
        return self.size - (reply[2] if self.kind == "cl" else reply if self.kind == "rl" else reply["remaining"])


class Ask:
    """A request: its words, what it would change, and what is to be done with its reply."""

    def __init__(self, words, account=None, delta=0, then=None):
        self.words, self.account, self.delta, self.then = words, account, delta, then
        if account:
            account.ask(delta)
            self.room = account.sure_room()

    def answer(self, reply, now):
        if isinstance(reply, server.Error):
            raise Fault(f"{' '.join(self.words)}: {reply}")
        if self.account:
            self.settle(reply, now)
        if self.then:
            self.then(reply, now)

    def undecided(self):
        """Nothing was decided, and the error said so. What has an id will be asked again."""
        if self.account and not self.then:
            self.account.withdraw(self.delta)

    def settle(self, reply, now):
        if not self.refused(reply):
            self.account.ack(self.delta, now)
            return
        if self.account.most_since(self.room) <= self.account.size and not self.is_early(reply):  # with this one
            raise Fault(f"{' '.join(self.words)}: refused, although there is room: {reply}")
        self.account.withdraw(self.delta)

    @staticmethod
    def is_early(reply):
        """Threads read the clock each for itself: whoever is behind waits for the moment of the one before."""
        return isinstance(reply, dict) and 0 <= reply["retry_after_ms"] <= EARLY_MS

    def refused(self, reply):
        if self.words[0] == "CL.THROTTLE":
            return reply[0] != 0
        if self.words[0] == "RL.REDUCE":
            return reply < self.delta
        return isinstance(reply, dict) and reply.get("allowed") is False


class Reservation:
    def __init__(self, name, account, n, now):
        self.name, self.account, self.n, self.made = name, account, n, now
        self.how = None  # words of the command that settles it
        self.settled = None  # when that was answered
        self.expect = None


class Book:
    def __init__(self, rng):
        self.rng = rng
        self.compatible_commands = True
        self.born = time.monotonic()
        self.accounts = {}
        self.ids = {}  # words of a request with an ID -> [its reply, when], or [None, Ask]
        self.reservations = []
        # What may be in force: the last one that was acked, then those asked for since. None: there is none.
        self.settings = {"policy": [None], "override": [None]}
        self.serial = 0
        self.acks = 0
        self.twice = 0  # requests with an id that were cut off, and charged again
        self.holes = False  # it was killed while the disk took nothing: open reservations may have become void
        self.voids = 0  # settlements that a kill cut in two, so that what they gave back may be lost

    def changes(self):
        """Units of all answers so far."""
        return sum(sum(account.acked) for account in self.accounts.values())

    # ---- what to ask

    def account(self, kind, key=None):
        key = f"k{self.rng.randrange(KEYS[kind])}" if key is None else key
        return self.accounts.setdefault((kind, key), Account(kind, key))

    def draw(self):
        """The next request of a load."""
        kind = self.rng.random()
        if kind < 0.25:
            return self.take(self.account("hot", "hot"), self.rng.choice((1, 1, 1, 2, 5)))
        if kind < 0.60:
            return self.take(self.account(self.rng.choice(("day", "ring", "fixed", "slide", "two", "mine"))),
                             self.rng.randint(1, 3))
        if kind < 0.70:
            return self.compatible()
        if kind < 0.78:
            return self.give()
        if kind < 0.82:
            return self.charge()
        if kind < 0.83:
            return self.take_by_id()
        if kind < 0.84:
            return self.reserve()
        if kind < 0.85:
            return self.end_reservation()
        if kind < 0.92:
            return Ask(("PING",))
        account = self.account("day")
        return Ask(account.question())

    def take(self, account, n):
        return Ask(("WEIR.TAKE", account.kind, account.key, str(n)), account, n)

    def compatible(self):
        if not self.compatible_commands:
            return self.take(self.account("two"), 1)
        account = self.account(self.rng.choice(("cl", "rl")))
        n = self.rng.randint(1, 2)
        if account.kind == "cl":
            return Ask(("CL.THROTTLE", account.key, *CELL, str(n)), account, n)
        if account.bounds()[1] + n > account.size:
            return Ask(account.question())
        return Ask(("RL.REDUCE", account.key, *SMYTE, "TAKE", str(n)), account, n)

    def give(self):
        """Only what is surely there: the rest would be thrown away."""
        account = self.account(self.rng.choice(("day", "ring", "fixed", "slide", "two", "mine")))
        n = self.rng.randint(1, 2)
        if account.bounds()[0] < n:
            return Ask(account.question())
        return Ask(("WEIR.GIVE", account.kind, account.key, str(n)), account, -n)

    def charge(self):
        """Not into debt, of which only the limit's size would be seen."""
        account = self.account("day")
        if account.bounds()[1] + 1 > account.size:
            return Ask(account.question())
        return Ask(("WEIR.CHARGE", "day", account.key, "1"), account, 1)

    def take_by_id(self):
        """A key of its own kind: all that is done to it can be asked again, so that it is known exactly."""
        self.serial += 1
        account = self.account("day", f"id{self.rng.randrange(30)}")
        words = ("WEIR.TAKE", "day", account.key, "1", "ID", f"r{self.serial}")
        return self.remembered(words, account, 1)

    def remembered(self, words, account, n, then=None):
        def keep(reply, now):
            if isinstance(reply, dict) and not reply["allowed"]:
                del self.ids[words]  # a refusal is remembered for seconds only
            else:
                self.ids[words] = [reply, now]
            if then:
                then(reply, now)

        ask = Ask(words, account, n, keep)
        self.ids[words] = [None, ask]
        return ask

    def reserve(self):
        self.serial += 1
        account, n = self.account("day", f"id{self.rng.randrange(30)}"), self.rng.randint(1, 20)

        def made(reply, now):
            if reply["allowed"]:
                self.reservations.append(Reservation(reply["id"], account, n, now))

        return self.remembered(("WEIR.RESERVE", "day", account.key, str(n), "ID", f"r{self.serial}"), account, n, made)

    def end_reservation(self):
        still = [one for one in self.reservations[-20:] if not one.how]
        if not still:
            return Ask(("PING",))
        one = self.rng.choice(still)
        used = self.rng.randint(0, one.n)
        if used == 0:
            one.how, one.expect = ("WEIR.CANCEL", one.name), {"given_back": one.n}
        else:
            one.how, one.expect = ("WEIR.COMMIT", one.name, str(used)), {"charged": used, "given_back": one.n - used}
        return Ask(one.how, one.account, used - one.n, lambda reply, now: self.settled(one, reply, now))

    @staticmethod
    def settled(one, reply, now):
        if {name: reply.get(name) for name in one.expect} != one.expect:
            raise Fault(f"{' '.join(one.how)}: {reply} instead of {one.expect}")
        one.settled = now

    def administer(self):
        """What an operator does; on one connection, so that these have an order."""
        return self.image() if self.rng.random() < 0.6 else self.change()

    @staticmethod
    def image():
        return Ask(("WEIR.IMAGE",))

    def change(self):
        limits = f"{self.rng.randint(1, 9)}/h burst=1k"
        if self.rng.random() < 0.5:
            return self.set("policy", ("WEIR.POLICY", "SET", "mine"), limits)
        return self.set("override", ("WEIR.OVERRIDE", "SET", "mine", "k0"), limits)

    def set(self, what, words, limits):
        may = self.settings[what]
        may.append(limits)

        def acked(reply, _):
            if reply != "OK":
                raise Fault(f"{' '.join(words)} {limits}: {reply}")
            del may[:may.index(limits)]  # of two that are the same the earlier one stays: it is weaker, not wrong

        return Ask(words + (limits,), then=acked)

    # ---- what is there

    def look(self, weir, until=None, adopt=False):
        """Compares with what `weir` has. With `until`, what was acknowledged after that may be missing. With adopt,
        that is the truth from now on; it is asked again what was cut off. Returns how many units are missing that were
        acknowledged, and when the first of those were."""
        with weir.connect(version=3) as client:
            if until is None:
                self.look_at_settings(client, adopt)
            if adopt:
                self.ask_again(client)
            self.look_at_ids(client, until)
            self.look_at_settled(client, until)
            lost = self.look_at_accounts(client, until, adopt)
            if not adopt:
                self.look_at_open(client, until)
        return lost

    def look_at_settings(self, client, adopt):
        shown = client.ask("WEIR.POLICY", "SHOW", "mine")
        listed = client.ask("WEIR.OVERRIDE", "LIST", "mine")
        lines = [] if isinstance(listed, server.Error) else listed
        there = {"policy": None if isinstance(shown, server.Error) else shown["limits"],
                 "override": {line["key"]: line["limits"] for line in lines}.get("k0")}
        for what, limits in there.items():
            if limits not in self.settings[what]:
                raise Fault(f"{what} of mine is {limits}, not one of {self.settings[what]}")
            if adopt:
                self.settings[what] = [limits]

    def ask_again(self, client):
        """What has a name can be asked again. The answer tells whether it was done before, or now. A charge is kept
        before the answer that tells of it, perhaps by somebody else: a kill between the two charges twice, and mints
        nothing."""
        cut = [(words, ask) for words, (reply, ask) in self.ids.items() if reply is None]
        for (_, ask), reply in zip(cut, client.pipeline(*(words for words, _ in cut))):
            ask.answer(reply, time.monotonic())
            ask.account.again += ask.delta
        ends = [one for one in self.reservations if one.how and one.settled is None]
        for one, reply in zip(ends, client.pipeline(*(one.how for one in ends))):
            if self.holes and VOID in reply:
                self.reservations.remove(one)
                continue
            if not isinstance(reply, server.Error) and reply["given_back"] == 0 != one.expect["given_back"]:
                self.void(one)  # killed after it was noted, and perhaps before the units were back
            Ask(one.how, then=lambda reply, now, one=one: self.settled(one, reply, now)).answer(reply, time.monotonic())
            one.account.ack(-one.expect["given_back"], time.monotonic())

    def void(self, one):
        self.voids += 1
        one.expect = {"given_back": 0} if one.how[0] == "WEIR.CANCEL" else {"charged": one.n, "given_back": 0}

    def look_at_ids(self, client, until):
        known = [(words, reply) for words, (reply, when) in self.ids.items()
                 if reply is not None and (until is None or when <= until)]
        known = self.rng.sample(known, min(len(known), IDS_LOOKED_AT))
        for (words, first), reply in zip(known, client.pipeline(*(words for words, _ in known))):
            if reply != first:
                raise Fault(f"{' '.join(words)}: {reply}, at first {first}")

    def look_at_settled(self, client, until):
        """Settled once: the same is answered the same, and nothing else is done."""
        known = [one for one in self.reservations if one.settled and (until is None or one.settled <= until)]
        for one in self.rng.sample(known, min(len(known), IDS_LOOKED_AT)):
            self.settled(one, client.ask(*one.how), one.settled)
            other = client.ask("WEIR.COMMIT", one.name, str(one.n + 1))
            if not isinstance(other, server.Error):
                raise Fault(f"{one.name} was settled by {one.how}, and again: {other}")

    def look_at_accounts(self, client, until, adopt):
        accounts = list(self.accounts.values())
        refilled = int((time.monotonic() - self.born) / REFILL_SECONDS)
        lost, since, faults = 0, None, []
        for account, reply in zip(accounts, client.pipeline(*(account.question() for account in accounts))):
            used = account.used(reply)
            low, high = account.bounds(until)
            if high < used <= high + account.again:
                self.twice += 1
            elif not low - refilled <= used <= high:
                faults.append(f"{account.kind} {account.key} has used {used}; answered {low}, asked for {high}")
            if used < account.bounds()[0]:
                lost += account.bounds()[0] - used
                when = account.lost_since(used)
                since = when if since is None or when < since else since
            if adopt:
                account.restart(used)
        if faults:
            raise Fault("\n".join(faults))
        return lost, since

    def look_at_open(self, client, until):
        """Reservations that were answered are there, and can be settled: on a server that is not used any more."""
        for one in self.reservations[-50:]:
            if one.how or (until is not None and one.made > until):
                continue
            reply = client.ask("WEIR.COMMIT", one.name, str(one.n))
            if until is not None and VOID in reply:
                continue  # something between was lost, so that none of them is trusted
            if isinstance(reply, server.Error) or reply["charged"] != one.n:
                raise Fault(f"reservation {one.name} of {one.n}: {reply}")


class Line(server.Client):
    """A connection with requests on the way. Reading never waits."""

    class Partly(Exception):
        pass

    pending = None  # until it has said HELLO

    def __init__(self, address, draw, flight, bears):
        super().__init__(address, 3)
        self.draw, self.flight, self.bears = draw, flight, bears
        self.pending = collections.deque()

    def more(self):
        if self.pending is not None:
            raise self.Partly()
        super().more()

    def fileno(self):
        return self.socket.fileno()

    def fill(self, rng):
        count = min(rng.randint(1, BATCH), self.flight - len(self.pending))
        asks = [self.draw() for _ in range(count)]
        self.pending.extend(asks)
        if asks:
            self.raw(b"".join(server.encode(*ask.words) for ask in asks))

    def take_in(self):
        """How many replies there were."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise server.Closed()
        self.bytes, self.at = self.bytes[self.at:] + data, 0
        now, count = time.monotonic(), 0
        try:
            while self.pending:
                start = self.at
                reply = self.read()
                ask = self.pending.popleft()
                if self.bears and isinstance(reply, server.Error) and re.search(self.bears, reply):
                    ask.undecided()
                else:
                    ask.answer(reply, now)
                count += 1
        except self.Partly:
            self.at = start
        return count


# What the Redis protocol answers of a verdict; HTTP tells more.
FIELDS = ("allowed", "remaining", "retry_after_ms", "reset_after_ms", "limit", "reason", "id", "due_in_ms", "charged",
          "given_back")
BATCHED = {"WEIR.TAKE": "take", "WEIR.PEEK": "peek", "WEIR.GIVE": "give", "WEIR.CHARGE": "charge",
           "WEIR.RESERVE": "reserve", "WEIR.COMMIT": "commit", "WEIR.CANCEL": "cancel"}


def http_fields(words):
    """The JSON of a command's words."""
    op = BATCHED[words[0]]
    if op in ("commit", "cancel"):
        return {"id": words[1], **({"used": int(words[2])} if op == "commit" else {})}
    fields = {"policy": words[1], "key": words[2]}
    if len(words) > 3:
        fields["n"] = int(words[3])
    if len(words) > 5:
        fields["id"] = words[5]
    return fields


def http_request(words):
    """The method, path and body that a command has over HTTP."""
    if words[0] in BATCHED:
        return "POST", "/v1/" + BATCHED[words[0]], http_fields(words)
    if words[:2] == ("WEIR.POLICY", "SET"):
        return "PUT", "/v1/policies/" + words[2], {"limits": words[3]}
    if words[:2] == ("WEIR.OVERRIDE", "SET"):
        return "PUT", f"/v1/overrides/{words[2]}/{words[3]}", {"limits": words[4]}
    return "GET", "/livez", None  # a PING


def resp_reply(status, found):
    """What the Redis protocol would have answered."""
    if "error" in found:
        status, found = found["error"]["status"], found["error"]
    if status not in (200, 429):
        return server.Error(f"{found.get('code', 'ERR')} {found['detail']}")
    if found == {"ok": True}:
        return "OK"
    return {name: -1 if name.endswith("_ms") and found[name] is None else found[name]
            for name in FIELDS if name in found}


class HttpLine(Line):
    """The same by HTTP. Some requests come one by one, some as batches."""

    def __init__(self, address, draw, flight):
        server.Client.__init__(self, address)
        self.draw, self.flight, self.bears = draw, flight, None
        self.pending = collections.deque()
        self.sizes = collections.deque()  # of the responses to come: how many requests they answer

    def fill(self, rng):
        asks = [self.draw() for _ in range(min(rng.randint(1, BATCH), self.flight - len(self.pending)))]
        self.pending.extend(asks)
        while asks:
            count = rng.choice((1, 1, 2, 8))
            group, asks = asks[:count], asks[count:]
            if len(group) > 1 and all(ask.words[0] in BATCHED for ask in group):
                elements = [{"op": BATCHED[ask.words[0]], **http_fields(ask.words)} for ask in group]
                self.say_http("POST", "/v1/batch", {"requests": elements}, len(group))
            else:
                for ask in group:
                    self.say_http(*http_request(ask.words), 1)

    def say_http(self, method, path, body, size):
        self.sizes.append(size)
        data = b"" if body is None else json.dumps(body).encode("utf-8")
        self.raw(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(data)}\r\n\r\n".encode("ascii") + data)

    def take_in(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise server.Closed()
        self.bytes, self.at = self.bytes[self.at:] + data, 0
        now, count = time.monotonic(), 0
        try:
            while self.sizes:
                start = self.at
                response = http_client.HttpClient.response(self)
                found = response.json
                size = self.sizes.popleft()
                answers = [found] if size == 1 and "answers" not in found else found["answers"]
                if len(answers) != size:
                    raise Fault(f"{len(answers)} answers to {size} requests: {response}")
                for one in answers:
                    self.pending.popleft().answer(resp_reply(response.status, one), now)
                count += size
        except self.Partly:
            self.at = start
        return count


class Load:
    def __init__(self, book, weir, bears=None, http=False):
        """With `bears`, errors like that may come, and mean that nothing was decided."""
        self.book = book
        book.compatible_commands = not http
        self.lines = []
        self.gone = False
        try:
            if None in book.settings["policy"]:
                self.begin(weir)
            for _ in range(LINES):
                self.lines.append(HttpLine(("127.0.0.1", weir.ports["http"]), book.draw, FLIGHT) if http
                                  else Line(weir.address(), book.draw, FLIGHT, bears))
            if http:  # changes come on one connection, too; HTTP has no images
                self.lines.append(HttpLine(("127.0.0.1", weir.ports["http"]), book.change, 1))
            self.lines.append(Line(weir.address(), book.image if http else book.administer, 1, bears))
        except (OSError, server.Closed):
            self.gone = True

    def begin(self, weir):
        """A policy that nothing but the store knows."""
        with weir.connect(version=3) as client:
            ask = self.book.set("policy", ("WEIR.POLICY", "SET", "mine"), "1/h burst=1k")
            ask.answer(client.ask(*ask.words), time.monotonic())

    def run(self, seconds):
        """Until then, or until the server is gone."""
        end = time.monotonic() + seconds
        while not self.gone and (left := end - time.monotonic()) > 0:
            self.step(left)

    def step(self, timeout, ask=True):
        try:
            for line in self.lines if ask else ():
                if len(line.pending) < line.flight / 2:
                    line.fill(self.book.rng)
            ready = select.select(self.lines_open(), [], [], timeout)[0]
            for line in ready:
                self.book.acks += line.take_in()
            return bool(ready)
        except (OSError, server.Closed):
            self.gone = True
            self.drain()
            return False

    def lines_open(self):
        return [line for line in self.lines if line.fileno() >= 0]

    def drain(self):
        """What has been sent before the end was answered as well."""
        for line in self.lines_open():
            try:
                while True:
                    self.book.acks += line.take_in()
            except (OSError, server.Closed):
                line.close()

    def take_in(self):
        """What is here by now, and nothing more is asked."""
        while not self.gone and self.step(0, ask=False):
            pass

    def finish(self):
        """Until all is answered, and nothing more is asked."""
        end = time.monotonic() + server.PATIENCE
        while not self.gone and any(line.pending for line in self.lines):
            if time.monotonic() > end:
                raise Fault("requests are not answered: " + " ".join(str(len(line.pending)) for line in self.lines))
            self.step(1, ask=False)

    def close(self):
        for line in self.lines:
            line.close()
