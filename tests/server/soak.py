# SPDX-License-Identifier: MIT
"""Everything at once, for long: soak.py [SECONDS], an hour by default.

All commands, clients that come and go, acquires that are abandoned, policies and overrides that change, the file read
again; beside it a steady load. Memory and descriptors of the server are looked at all the time. Exit status 1 if memory
grew in the second half by more than 2 % and 1 MiB, a descriptor was left, an answer was strange, or counts do not add up.
In rounds of less than ten minutes memory may grow by 8 MiB: request ids and debts, which are remembered for minutes, are
still coming in, and memory follows them.
"""

import collections
import os
import random
import re
import signal
import socket
import struct
import sys
import threading
import time

import server
import traffic

MIXERS = 4
SAMPLES = 8  # at least: on a slow machine it takes longer
# Their limits differ in numbers only: after a change to another kind of limits the old ones stay for a while, and memory
# could not be compared. Policies that come and go by command change in every way.
FILES = ("""\
policies:
  - {name: steady, limits: [1000/s, 100k/h]}
  - {name: p0, limits: [100/s burst=200, 10k/h]}
  - {name: p1, limits: [5/m algo=sliding-log], mode: shadow}
  - {name: p2, limits: [50/s], candidate: [30/s burst=60], mode: enforce 25%}
  - {name: p3, limits: [90k/m name=tpm, 1M/d name=budget], reserve: {ttl: 1s, overrun: refuse}, overrides: [
      {key: k1, limits: [1000/s]}, {key: "internal:*", limits: [unlimited]}]}
  - {name: leased, limits: [1k/s algo=quota], fleet: {coordinator: "local:"}}
""", """\
policies:
  - {name: steady, limits: [1200/s, 100k/h]}
  - {name: p0, limits: [120/s burst=200, 12k/h]}
  - {name: p1, limits: [5/2m algo=sliding-log], mode: enforce}
  - {name: p2, limits: [40/s burst=90]}
  - {name: p3, limits: [90k/m name=tpm, 2M/d name=budget], reserve: {ttl: 2s}, overrides: [
      {key: k2, limits: [blocked]}, {key: "intern*", limits: [10/s]}, {key: "internal:a*", limits: [1M/s]}]}
  - {name: leased, limits: [1200/s algo=quota], fleet: {coordinator: "local:"}}
""", "policies: [{name: p0, limits: [5/s brust=3]}]\n")
LIMITS = ("10/s", "20/s burst=50", "40/m algo=sliding-log", "1k/h, 10k/d", "5/s algo=step", "30/s algo=fixed-window",
          "10/s algo=smooth", "unlimited", "blocked", "12k/s algo=hybrid ratio=1.1", "10/s algo=leaky-bucket queue=5")

# What may be answered although nothing is wrong.
EXPECTED = re.compile("|".join((
    "ERR no policy '", "ERR no reservation '", "ERR reservation '", "ERR .* is more than the .* reserved",
    "ERR this key has no limits of its own", "ERR policy '.*' is this server's alone and leases nothing",
    "ERR unknown command", "ERR unknown subcommand", "ERR This instance has cluster support disabled",
    "ERR nothing can be set this way", "ERR .*--test-clock", "ERR AUTH <password> called", "WRONGPASS", "ERR too many failed",
    "NOPROTO", "ERR wrong number of arguments", "ERR .*SIGTERM", "ERR .*brust", "ERR the id '.*' belongs to another question",
    "ERR syntax error near", "ERR n must be", "UNAVAILABLE no room for another request id",
    "ERR policy '.*' changed the kind of its limits just before", "ELSEWHERE redis", "ERR that is not frozen",
    "ERR .*frozen", "ERR .*--data", "ERR no such load is going on",
    "ERR policy .* changed the kind of its limits, and those of before")))

# Those that decide: each call is allowed, refused or an error.
DECIDING = ("weir.take", "weir.acquire", "weir.reserve", "cl.throttle", "throttle", "gcra", "rl.reduce", "rl.preduce",
            "rl.sessionize", "rl.psessionize")


def policy(dice):
    return f"p{dice.randrange(8)}"


def key(dice):
    return dice.choice((f"k{dice.randrange(2000)}", f"k{dice.randrange(10)}", f"internal:{dice.randrange(100)}"))


def pair(dice):
    return policy(dice), key(dice)


def id_of(dice):
    return "ID", dice.choice((f"id-{dice.randrange(100)}", f"id-{dice.getrandbits(64)}"))


# Every command, each with a way to write a request.
REQUESTS = {
    "weir.take": lambda d: d.choice(((*pair(d),), (*pair(d), d.randrange(1, 9)), (*pair(d), "AND", *pair(d), 2),
                                     (*pair(d), *id_of(d)), (*pair(d), 0), ("nobody", "k"))),
    "weir.acquire": lambda d: (*pair(d), 1, "TIMEOUT", d.randrange(20)),
    "weir.peek": lambda d: (*pair(d), d.randrange(1, 9)),
    "weir.give": lambda d: (*pair(d), 2, *d.choice(((), id_of(d)))),
    "weir.charge": lambda d: (*pair(d), 1, *d.choice(((), id_of(d)))),
    "weir.reset": pair,
    "weir.reserve": lambda d: d.choice(((*pair(d), 3, "TTL", 500), (*pair(d), 2, "AND", *pair(d), 2, "TTL", 300),
                                        (*pair(d), 1, "TIMEOUT", 50, "TTL", 200), (*pair(d), 1, "TTL", 100, *id_of(d)))),
    "weir.lease": lambda d: d.choice((("leased", 0), (policy(d), 1))),
    "weir.return": lambda d: ("leased", d.getrandbits(40), d.randrange(1, 4)),
    "weir.commit": lambda d: (f"{d.getrandbits(16):x}-{d.randrange(1000)}", d.randrange(5)),
    "weir.cancel": lambda d: (f"{d.getrandbits(16):x}-{d.randrange(1000)}",),
    "weir.explain": lambda d: (*pair(d), *d.choice(((), ("JSON",)))),
    "weir.top": lambda d: (policy(d), d.choice(("TAKEN", "REFUSED")), "COUNT", d.randrange(1, 20)),
    "weir.keys": lambda d: (policy(d), "COUNT", d.randrange(1, 20)),
    "weir.metrics": lambda d: d.choice(((), ("OPENMETRICS",))),
    "weir.policy": lambda d: d.choice((("LIST",), ("SHOW", policy(d)), ("HELP",))),
    "weir.reload": lambda d: (),
    "weir.clock": lambda d: ("ADVANCE", 1),
    "weir.override": lambda d: d.choice((("LIST", policy(d)), ("DEL", *pair(d)))),
    "rl.reduce": lambda d: (key(d), 10, 1, "TAKE", d.randrange(4)),
    "rl.preduce": lambda d: (key(d), 10, 100),
    "rl.get": lambda d: (key(d), 10, 1),
    "rl.pget": lambda d: (key(d), 10, 100),
    "rl.sessionize": lambda d: (key(d), 2, 1),
    "rl.psessionize": lambda d: (key(d), 2, 500),
    "rl.del": lambda d: (key(d), 10, 1),
    "rl.pdel": lambda d: (key(d), 10, 100),
    "cl.throttle": lambda d: (key(d), 15, 30, 1, d.randrange(1, 3)),
    "throttle": lambda d: (key(d), 15, 30, 1),
    "gcra": lambda d: (key(d), 15, 30, 1),
    "del": lambda d: (key(d), key(d)),
    "hello": lambda d: (d.choice((2, 3, 3, 4)),),
    "auth": lambda d: ("wrong",),
    "ping": lambda d: d.choice(((), ("x",))),
    "echo": lambda d: ("x" * d.randrange(3000),),
    "select": lambda d: (0,),
    "readonly": lambda d: (),
    "readwrite": lambda d: (),
    "cluster": lambda d: ("INFO",),
    "client": lambda d: d.choice((("SETNAME", f"n{d.randrange(9)}"), ("LIST",), ("ID",), ("INFO",), ("KILL", "ID", 1 << 40),
                                  ("SETINFO", "LIB-NAME", "soak"))),
    "info": lambda d: d.choice(((), ("all",), ("weir",))),
    "config": lambda d: d.choice((("GET", "*"), ("SET", "a", "b"))),
    "dbsize": lambda d: (),
    "time": lambda d: (),
    "get": lambda d: (key(d),),
    "exists": lambda d: (key(d),),
    "ttl": lambda d: (key(d),),
    "type": lambda d: (key(d),),
    "latency": lambda d: ("LATEST",),
    "slowlog": lambda d: ("LEN",),
    "memory": lambda d: ("DOCTOR",),
    "shutdown": lambda d: (),
    "command": lambda d: d.choice((("COUNT",), ("DOCS", "weir.take"), ("LIST",))),
    "incr": lambda d: (key(d),),
    "weir.dump": lambda d: d.choice((("HEAD",), ("POLICY", policy(d)), ("KEYS", policy(d), ""))),
    "weir.load": lambda d: d.choice((("HELP",), ("END", policy(d), "none"))),
    "weir.freeze": lambda d: ("p7", "redis://127.0.0.1:1", "HASH", "8" + "0" * 15, "8" + "f" * 15),
    "weir.thaw": lambda d: ("p7",),
    "weir.image": lambda d: (),
    "weir.flush": lambda d: (),
    "weir.backup": lambda d: ("soak",),
}
SELDOM = {"weir.reload", "info", "command", "weir.dump", "weir.image", "weir.flush", "weir.backup"}  # what costs much
ELSEWHERE = {"quit", "reset"}  # said by those who come and go


class Soak:
    def __init__(self, seconds, *arguments, seed=None):
        self.seconds = seconds
        self.seed = random.randrange(1 << 32) if seed is None else seed
        self.faults = []
        self.errors = collections.Counter()
        self.replies = 0
        self.samples = []  # seconds, resident bytes, descriptors
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.weir = server.Server(*arguments, config=FILES[0])
        self.address = self.weir.address()

    def fault(self, text):
        with self.lock:
            if text not in self.faults and len(self.faults) < 20:
                self.faults.append(text)

    def saw(self, request, reply):
        self.replies += 1  # about right is good enough
        if isinstance(reply, server.Error):
            if not EXPECTED.match(reply):
                self.fault(f"{' '.join(map(str, request))[:80]}: {reply}")
            with self.lock:
                self.errors[" ".join(reply.split()[:4])] += 1

    # ---- those who ask

    @staticmethod
    def request(dice):
        while True:
            name = dice.choice(list(REQUESTS))
            if name not in SELDOM or dice.random() < 0.02:
                return (name.upper(), *REQUESTS[name](dice))

    def mix(self, dice, client):
        requests = [self.request(dice) for _ in range(dice.choice((1, 5, 50, 200)))]
        for request, reply in zip(requests, client.pipeline(*requests)):
            self.saw(request, reply)

    def reserve(self, dice, client):
        """A reservation is settled, by somebody else perhaps, or forgotten."""
        client.ask("HELLO", 3)
        ask = ["WEIR.RESERVE", *pair(dice), dice.randrange(1, 20), "TTL", 1000]
        reply = client.ask(*ask)
        self.saw(ask, reply)
        if isinstance(reply, server.Error) or not reply["id"]:
            return
        for ask in dice.choice((["WEIR.CANCEL", reply["id"]], ["WEIR.COMMIT", reply["id"]],
                                ["WEIR.COMMIT", reply["id"], dice.randrange(30)], None)), ["PING"]:
            if ask:
                self.saw(ask, client.ask(*ask))

    def abandon(self, dice):
        """Waits for what is due in an hour, and goes."""
        client = server.Client(self.address)
        client.pipeline(["WEIR.TAKE", "slow", f"k{dice.randrange(50)}"], ["PING"])
        client.send("WEIR.ACQUIRE", "slow", f"k{dice.randrange(50)}", 1)
        if dice.random() < 0.5:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    def come_and_go(self, dice):
        client = server.Client(self.address, version=dice.choice((2, 3)))
        how = dice.randrange(6)
        if how == 0:
            client.ask("QUIT")
        elif how == 1:
            client.ask("RESET")
        elif how == 2:
            client.pipeline(["CLIENT", "SETNAME", "x"], ["PING"])
        elif how == 3:  # does not wait for the answers
            client.raw(server.encode("WEIR.TAKE", *pair(dice)) * 500)
        elif how == 4:
            client.raw(b"*3\r\n$9\r\nWEIR.T")
        else:
            client.raw(server.encode("CLIENT", "REPLY", "OFF") + server.encode("WEIR.TAKE", *pair(dice)) * 20 +
                       server.encode("CLIENT", "REPLY", "ON"))
            if client.read() != "OK":
                self.fault("an answer although there should be none")
        client.close()

    def mixer(self, number):
        dice = random.Random(self.seed + number)
        client = server.Client(self.address)
        while not self.over.is_set():
            act = dice.randrange(10)
            if act < 5:
                self.mix(dice, client)
            elif act < 7:
                self.reserve(dice, client)
            elif act < 8:
                self.abandon(dice)
            elif act < 9:
                self.come_and_go(dice)
            else:
                client.close()
                client = server.Client(self.address)
        client.close()

    # ---- the operator

    def configure(self, text):
        """All at once: others have it read at any time."""
        with open(self.weir.config_path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.weir.config_path + ".new", self.weir.config_path)

    def change(self, dice, client):
        name = policy(dice)
        own = f"p{dice.randrange(4, 8)}"  # not in the file
        request = dice.choice((
            ["WEIR.POLICY", "SET", own, dice.choice(LIMITS)], ["WEIR.POLICY", "SET", own, dice.choice(LIMITS), "FRESH"],
            ["WEIR.POLICY", "DEL", own], ["WEIR.POLICY", "MODE", name, dice.choice(("enforce", "shadow", "disabled"))],
            ["WEIR.POLICY", "MODE", name, "enforce", "PERCENT", dice.randrange(1, 101), "FOR", "200ms"],
            ["WEIR.POLICY", "MODE", "*", "shadow", "FOR", "50ms"], ["WEIR.POLICY", "MODE", "*", "enforce"],
            ["WEIR.OVERRIDE", "SET", name, f"k{dice.randrange(20)}", dice.choice(LIMITS), "FOR", "300ms"],
            ["WEIR.OVERRIDE", "SET", name, f"internal:{dice.randrange(5)}*", "10/s", "REASON", "because"],
            ["WEIR.OVERRIDE", "DEL", name, f"internal:{dice.randrange(5)}*"], ["WEIR.RELOAD"]))
        if request == ["WEIR.RELOAD"]:
            self.configure(dice.choice(FILES))
            if dice.random() < 0.3:
                self.weir.signal(signal.SIGHUP)
        self.saw(request, client.ask(*request))

    def tidy(self, client):
        """As at first, so that what is seen can be compared."""
        self.configure(FILES[0])
        requests = [["WEIR.RELOAD"], ["WEIR.POLICY", "MODE", "*", "enforce"], ["WEIR.POLICY", "SET", "slow", "1/h"]]
        requests += [["WEIR.POLICY", "DEL", f"p{number}"] for number in range(4, 8)]
        requests += [["WEIR.POLICY", "MODE", f"p{number}", "enforce"] for number in range(4)]
        for number in range(4):
            own = client.ask("WEIR.OVERRIDE", "LIST", f"p{number}")
            if isinstance(own, server.Error):
                raise AssertionError(own)
            requests += [["WEIR.OVERRIDE", "DEL", f"p{number}", one["key"]] for one in own]
        for request in requests:
            self.saw(request, client.ask(*request))

    # ---- looking on

    def watch(self):
        """Changes what can be changed, and now and then tidies up and looks at memory and descriptors."""
        dice = random.Random(self.seed - 1)
        every = min(10.0, max(self.seconds / 100, 0.3))
        begin = looked = told = time.monotonic()
        with server.Client(self.address, version=3) as client:
            self.tidy(client)
            while (now := time.monotonic()) - begin < self.seconds or len(self.samples) < SAMPLES:
                if now - looked < every:
                    self.change(dice, client)
                    continue
                self.tidy(client)
                self.over.wait(0.1)  # some ticks, in which the server tidies up behind it
                self.samples.append((now - begin, self.weir.memory(), self.weir.files()))
                looked = time.monotonic()
                if now - told >= self.seconds / 12:
                    told = now
                    print(f"  {now - begin:6.0f} s  {self.samples[-1][1] / 2**20:7.2f} MiB  "
                          f"{self.samples[-1][2]:4} descriptors  {self.replies} replies", flush=True)

    def guarded(self, act, *arguments):
        try:
            act(*arguments)
        except BaseException as fault:
            self.fault(f"{act.__name__}: {fault!r}")

    def run(self):
        try:
            with self.weir.connect() as control:
                self.go(control)
            self.weir.stop()
        except AssertionError as fault:
            self.fault(str(fault))
        finally:
            self.weir.clean()
        return self

    def go(self, control):
        print(f"soak of {self.seconds:.0f} s, seed {self.seed}")
        known = set(control.ask("COMMAND", "LIST"))
        if known - set(REQUESTS) - ELSEWHERE:
            self.fault(f"commands that nobody says: {known - set(REQUESTS) - ELSEWHERE}")
        files = self.weir.files()
        steady = traffic.Steady(self.weir, "steady", 100000, 4000, pipeline=8)
        threads = [threading.Thread(target=self.guarded, args=(self.mixer, number)) for number in range(MIXERS)]
        for thread in threads:
            thread.start()
        steady.begin("run", self.seconds)
        self.guarded(self.watch)
        self.over.set()
        for thread in threads:
            thread.join()
        self.figures = steady.end()
        steady.close()
        traffic.wait_until(lambda: traffic.info(control, "clients")["connected_clients"] == "1", "all have left")
        if self.weir.files() != files:
            self.fault(f"{self.weir.files()} descriptors at the end, {files} at first")
        self.check_counts(control)

    def check_counts(self, control):
        said = traffic.info(control, "weir", "commandstats", "clients")
        calls = [said[f"cmdstat_{name}"] for name in DECIDING if f"cmdstat_{name}" in said]
        decided = sum(int(call["calls"]) - int(call["failed_calls"]) for call in calls)
        if int(said["allowed"]) + int(said["refused"]) != decided:
            self.fault(f"allowed {said['allowed']} + refused {said['refused']} is not {decided}, the questions without error")
        if said["blocked_clients"] != "0":
            self.fault(f"{said['blocked_clients']} still wait")

    # ---- the verdict

    def growth(self, which):
        """First and last value of a line through the second half."""
        half = [(sample[0], sample[which]) for sample in self.samples[len(self.samples) // 2:]]
        mean_t = sum(t for t, _ in half) / len(half)
        mean = sum(value for _, value in half) / len(half)
        spread = sum((t - mean_t) ** 2 for t, _ in half)
        slope = sum((t - mean_t) * (value - mean) for t, value in half) / spread if spread else 0
        return mean + slope * (half[0][0] - mean_t), mean + slope * (half[-1][0] - mean_t)

    def verdict(self):
        if len(self.samples) < 4:
            print("\n".join(["too short to tell", *self.faults]))
            return False
        first, last = self.growth(1)
        print(f"memory in the second half       {first / 2**20:.2f} -> {last / 2**20:.2f} MiB")
        slack = 2**20 if self.seconds >= 600 else 8 * 2**20
        if last - first > 0.02 * first + slack:
            self.fault(f"memory grew by {(last - first) / 2**20:.2f} MiB in the second half")
        first, last = self.growth(2)
        print(f"descriptors in the second half  {first:.1f} -> {last:.1f}")
        if last - first > 0.02 * first + 8:
            self.fault(f"descriptors grew from {first:.0f} to {last:.0f} in the second half")
        print(f"steady load                     {traffic.shown_us(self.figures)}, {self.figures['answered']} answers")
        print(f"replies to the others           {self.replies}, errors among them: {sum(self.errors.values())}")
        for fault in self.faults:
            print(f"FAULT  {fault}")
        print("not as it should be" if self.faults else "flat, and all counts add up")
        return not self.faults


def main():
    try:
        seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600.0
    except ValueError:
        sys.exit("usage: soak.py [SECONDS]")
    sys.exit(0 if Soak(seconds, seed=int(os.environ["WEIR_SEED"]) if "WEIR_SEED" in os.environ else None).run().verdict()
             else 1)


if __name__ == "__main__":
    main()
