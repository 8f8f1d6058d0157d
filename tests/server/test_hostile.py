#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients that mean harm, or know no better: they get an error or are closed, and others notice nothing."""

import random
import re
import resource
import select
import socket
import struct
import threading

import server

POLICIES = """\
policies:
  - {name: api, limits: [1000000/s burst=1000000]}
  - {name: few, limits: [3/h algo=sliding-log]}
"""


class Malformed(server.ServerTest):
    """One server for all; whoever breaks it breaks the next test."""

    @classmethod
    def setUpClass(cls):
        cls.weir = server.Server("--test-clock", config=POLICIES)

    @classmethod
    def tearDownClass(cls):
        cls.weir.stop()

    def tearDown(self):
        with self.weir.connect() as client:
            self.assertEqual(client.ask("PING"), "PONG")

    def say(self, data):
        with self.weir.connect() as client:
            try:
                client.raw(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was closed before all was sent
            return client.rest()

    def test_protocol_errors_are_answered_and_the_connection_closed(self):
        for data, why in (
                (b"*99999999999999999999\r\n", "invalid multibulk length"),
                (b"*2147483648\r\n", "invalid multibulk length"),
                (b"*x\r\n", "invalid multibulk length"),
                (b"*2000\r\n", "invalid multibulk length"),
                (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
                (b"*1\r\n:5\r\n", "expected '$', got ':'"),
                (b"*1\r\n$-1\r\n", "invalid bulk length"),
                (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
                (b"*1\r\n$1000000\r\n", "invalid bulk length"),
                (b"*" + b"1" * 70000, "too big mbulk count string"),
                (b"*1\r\n$" + b"1" * 70000, "too big bulk count string"),
                (b"x" * 70000, "too big inline request"),
                (b'PING "half\r\n', "unbalanced quotes in request")):
            self.assertEqual(self.say(data), b"-ERR Protocol error: " + why.encode() + b"\r\n", data[:40])

    def test_what_was_right_before_is_answered_first(self):
        self.assertEqual(self.say(b"PING\r\n" + server.encode("ECHO", "x") + b"*1\r\n!\r\n" + b"PING\r\n"),
                         b"+PONG\r\n$1\r\nx\r\n-ERR Protocol error: expected '$', got '!'\r\n")

    def test_nothing_is_answered_to_nothing(self):
        self.assertEqual(self.say(b"\r\n\n*0\r\n*-1\r\n  \r\nQUIT\r\n"), b"+OK\r\n")

    def test_a_browser_is_closed(self):
        self.assertEqual(self.say(b"POST /cfg HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nWEIR.POLICY DEL api\r\n"), b"")
        self.assertNotIn(b"DEL", self.say(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nPING\r\n"))
        with self.weir.connect() as client:
            self.assertEqual(client.ask("WEIR.PEEK", "api", "k")[1], 1)

    def test_random_bytes(self):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        pieces = [b"*", b"$", b"\r\n", b"\n", b"-1", b"3", b"\0", b"\xff", b'"', b"'", b"\\x", b"WEIR.TAKE", b" ", b"api",
                  b"99999999999", b"*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$1\r\nk\r\n", b"PING\r\n", b"AND", b"ID"]
        for _ in range(60):
            data = b"".join(dice.choice(pieces) for _ in range(dice.randrange(1, 200)))
            with self.weir.connect() as client:
                client.raw(data)
                client.finish()
                client.rest()
        with self.weir.connect() as client:
            self.assertEqual(client.ask("PING"), "PONG", f"seed {seed}")

    def test_keys_may_be_any_bytes(self):
        with self.weir.connect(version=3) as client:
            for key in (b"\xff\xfe\0\r\n$5\r\n", b"\0", bytes(range(256))):
                self.assertEqual(client.ask("WEIR.TAKE", "few", key)["remaining"], 2)
                self.assertEqual(client.ask("WEIR.TAKE", "few", key)["remaining"], 1)

    def test_huge_words_and_many_of_them(self):
        with self.weir.connect() as client:
            self.assertEqual(client.ask("ECHO", "x" * 65536), "x" * 65536)
            self.assertIsInstance(client.ask("WEIR.TAKE", "api", "k" * 65536), server.Error)
            self.assertIsInstance(client.ask("PING", *["x"] * 1023), server.Error)
            self.assertEqual(client.ask("PING"), "PONG")
        self.assertIn(b"Protocol error", self.say(server.encode("ECHO", "x" * 65537)))
        self.assertIn(b"Protocol error: request too large",
                      self.say(b"*20\r\n" + b"".join(b"$65536\r\n" + b"x" * 65536 + b"\r\n" for _ in range(20))))


class Cuts(server.ServerTest):
    """The same bytes, cut anywhere, give the same replies."""

    def test_every_cut(self):
        weir = self.start("--test-clock", config=POLICIES)
        script = (b"WEIR.TAKE few %s\r\n" + server.encode("WEIR.TAKE", "few", "%s", "2", "AND", "api", "x") +
                  b"\r\nECHO \"a b\\x41\"\r\n" + server.encode("WEIR.POLICY", "SET", "p", "5/s") +
                  server.encode("HELLO", "3") + b"*-1\r\n" + server.encode("WEIR.TAKE", "p", "%s") +
                  server.encode("RESET") + server.encode("WEIR.TAKE", "few", "%s") + b"NONE x\r\n*1\r\n$4\r\nQUIT\r\nPING\r\n")

        def talk(name, cuts):
            data = script.replace(b"$2\r\n%s", b"$4\r\n%s").replace(b"%s", name)
            with weir.connect() as client:
                at = 0
                try:
                    for cut in [*cuts, len(data)]:
                        client.raw(data[at:cut])
                        at = cut
                except (BrokenPipeError, ConnectionResetError):
                    pass  # what stands behind QUIT is not waited for for long
                return len(data), re.sub(rb"id\r\n:\d+", b"id\r\n:0", client.rest()).replace(name, b"....")

        size, whole = talk(b"zzzz", [])
        self.assertEqual(whole.count(b"+OK\r\n"), 2, whole)
        self.assertNotIn(b"PONG", whole)
        for cut in range(1, size):
            self.assertEqual(talk(b"%04x" % (0xa000 + cut), [cut])[1], whole, f"cut at {cut}")
        self.assertEqual(talk(b"yyyy", range(1, size))[1], whole)


class Pressure(server.ServerTest):
    def bystander(self, weir, times=50):
        with weir.connect() as client:
            for _ in range(times):
                self.assertEqual(client.ask("WEIR.TAKE", "api", "bystander")[1], 1)

    def test_a_million_requests_in_one_pipeline(self):
        weir = self.start(config=POLICIES)
        count = 1000000
        with weir.connect() as client:
            writer = threading.Thread(target=client.raw, args=(server.encode("PING") * count,))
            writer.start()
            self.bystander(weir, 20)
            got = 0
            while got < count * 7:
                data = client.socket.recv(1 << 20)
                self.assertTrue(data)
                got += len(data)
            writer.join()
            self.assertEqual(got, count * 7)
        self.assertLess(weir.memory(), 256 << 20)

    def test_others_are_answered_while_a_pipeline_is_run(self):
        """It is run in slices of a millisecond; the bytes themselves come in two or three pieces."""
        weir = self.start("--threads", "1", config=POLICIES)
        slow = server.encode("COMMAND", "LIST", "FILTERBY", "PATTERN", "*[" + "~" * 60)
        most = 0
        for _ in range(10):  # a busy machine may keep us from asking in time
            with weir.connect() as greedy, weir.connect() as other:
                greedy.raw(slow * 500)
                got = answers = 0
                while got < 500 * len(b"*0\r\n"):
                    self.assertEqual(other.ask("PING"), "PONG")
                    answers += 1
                    if select.select([greedy.socket], [], [], 0)[0]:
                        got += len(greedy.socket.recv(1 << 20))
            most = max(most, answers)
            if most > 6:
                return
        self.fail(f"at most {most} answers to others meanwhile")

    def test_who_never_reads_is_paused_then_closed(self):
        weir = self.start("--stuck-ms", "400", config=POLICIES)
        before = weir.memory()
        data = server.encode("ECHO", "x" * 60000) * 64

        def push(deaf, patience):
            """Until neither side takes any more, or it is closed."""
            sent = 0
            try:
                while sent < 1 << 30 and select.select([], [deaf.socket], [], patience)[1]:
                    sent += deaf.socket.send(data)
            except (BlockingIOError, ConnectionResetError, BrokenPipeError):
                pass
            self.assertLess(sent, 1 << 30)

        for _ in range(10):  # on a busy machine we may be the one who says half a request and no more
            seen = len(weir.lines)
            with weir.connect() as deaf:
                deaf.socket.setblocking(False)
                push(deaf, 0.1)
                self.bystander(weir)
                self.assertLess(weir.memory() - before, 48 << 20)
                push(deaf, server.PATIENCE)  # it may have been slow, and not stuck
                if "does not read its answers" in weir.wait_line("event=closed", seen):
                    return
        self.fail("it was always closed for another reason")

    def test_half_a_request_is_not_waited_for_for_ever(self):
        weir = self.start("--stuck-ms", "150", config=POLICIES)
        with weir.connect() as slow, weir.connect() as idle:
            self.assertEqual(idle.ask("PING"), "PONG")
            slow.raw(b"*2\r\n$4\r\nECHO\r\n$10\r\nabc")
            self.assertEqual(slow.rest(), b"")
            weir.wait_line("event=closed.*half a request")
            self.assertEqual(idle.ask("PING"), "PONG")  # who says nothing may stay

    def test_a_byte_now_and_then_does_not_help(self):
        weir = self.start("--stuck-ms", "300", config=POLICIES)
        with weir.connect() as slow:
            slow.socket.settimeout(0.02)
            slow.raw(b"*2\r\n$4\r\nECHO\r\n$60000\r\n")
            with self.assertRaises((server.Closed, OSError)) as caught:
                for _ in range(2000):
                    slow.raw(b"x")
                    try:
                        slow.more()
                    except TimeoutError:
                        pass
                raise AssertionError("it was never closed")
            self.assertNotIsInstance(caught.exception, AssertionError)

    def test_half_open_connections_do_no_harm(self):
        weir = self.start(config=POLICIES)
        before = weir.files()
        for _ in range(50):
            client = weir.connect()
            client.send("WEIR.TAKE", "api", "k")
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()  # a reset, not an end
        clients = [weir.connect() for _ in range(50)]
        for client in clients:
            client.raw(b"*3\r\n$9\r\nWEIR.T")
            client.finish()
        for client in clients:
            self.assertEqual(client.rest(), b"")  # above all, nothing of what others were answered
            client.close()
        self.bystander(weir)
        with weir.connect() as client:  # each is gone as soon as somebody else has been answered since
            while weir.files() > before + 1:
                client.ask("PING")

    def test_more_clients_than_allowed(self):
        weir = self.start("--max-clients", "5", config=POLICIES)
        clients = [weir.connect() for _ in range(5)]
        for client in clients:
            self.assertEqual(client.ask("PING"), "PONG")
        with weir.connect() as one_too_many:
            self.assertEqual(one_too_many.rest(), b"-ERR max number of clients reached\r\n")
        self.assertEqual(clients[0].ask("PING"), "PONG")
        self.assertIn("rejected_connections:1\r\n", clients[0].ask("INFO", "stats"))
        clients.pop().close()
        while True:
            with weir.connect() as client:
                client.raw(b"PING\r\n")
                if client.first_line() == b"+PONG":
                    break
        for client in clients:
            client.close()

    def test_no_descriptors_left(self):
        weir = self.start("--max-clients", "1000", config=POLICIES,
                          before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80)))
        clients = []
        try:
            refused = 0
            for _ in range(120):
                client = weir.connect()
                clients.append(client)
                client.raw(b"PING\r\n")
                refused += client.first_line() != b"+PONG"
            self.assertGreater(refused, 20)
            self.assertEqual(clients[0].ask("PING"), "PONG")
        finally:
            for client in clients:
                client.close()
        self.bystander(weir)


class Strangers(server.ServerTest):
    """Who has not logged in may say little."""

    def setUp(self):
        self.weir = self.start(config="users:\n  - {name: default, password: s3cret, may: all}\n" + POLICIES)

    def say(self, data):
        with self.weir.connect() as client:
            client.raw(data)
            client.finish()
            return client.rest()

    def test_caps_before_a_login(self):
        self.assertEqual(self.say(server.encode("PING", *["x"] * 10)),
                         b"-ERR Protocol error: unauthenticated multibulk length\r\n")
        self.assertEqual(self.say(server.encode("AUTH", "x" * 16385)),
                         b"-ERR Protocol error: unauthenticated bulk length\r\n")
        self.assertIn(b"NOAUTH", self.say(server.encode("PING", "x" * 16384)))

    def test_a_login_in_the_same_pipeline_lifts_them(self):
        login, long = server.encode("AUTH", "s3cret"), server.encode("ECHO", "x" * 20000)
        want = b"+OK\r\n$20000\r\n" + b"x" * 20000 + b"\r\n"
        self.assertEqual(self.say(login + long), want)

    def test_only_so_many_at_once(self):
        """The oldest goes for a new one; a login makes room, and a RESET takes it."""
        weir = self.start("--max-clients", "160", "--login-timeout-ms", "600000",  # nobody goes for being slow
                          config="users:\n  - {name: default, password: s3cret, may: all}\n" + POLICIES)
        friend = weir.connect(password="s3cret")
        strangers = []

        def come():
            strangers.append(weir.connect())
            self.assertRegex(strangers[-1].ask("PING"), "^NOAUTH")

        def here():
            return len(friend.ask("CLIENT", "LIST").splitlines())

        try:
            for _ in range(40):  # a quarter
                come()
            self.assertEqual(here(), 41)
            for _ in range(3):
                come()
            for client in strangers[:3]:
                self.assertEqual(client.rest(), b"")
            self.assertEqual(strangers[3].ask("AUTH", "s3cret"), "OK")
            come()  # nobody has to go for it
            self.assertEqual(strangers[3].ask("RESET"), "RESET")  # the youngest again, and one too many
            come()
            self.assertEqual(strangers[4].rest(), b"")
            self.assertEqual(strangers[3].ask("AUTH", "s3cret"), "OK")
            stats = friend.ask("INFO", "stats")
            self.assertIn("rejected_connections:0\r\n", stats)
            self.assertIn("displaced_connections:4\r\n", stats)
            weir.wait_line("event=closed.*it had not logged in, and another one needed the place")
        finally:
            for client in [friend, *strangers]:
                client.close()

    def test_a_reload_that_asks_for_a_password_makes_strangers(self):
        weir = self.start("--login-timeout-ms", "200", config=POLICIES)  # looked at as often
        clients = [weir.connect() for _ in range(50)]
        try:
            for client in clients:  # where nobody needs to log in nobody is one
                self.assertEqual(client.ask("PING"), "PONG")
            weir.configure("users:\n  - {name: default, password: s3cret, may: all}\n" + POLICIES)
            self.assertEqual(clients[0].ask("WEIR.RELOAD"), "OK")
            for client in clients:  # they had longer than that already
                self.assertEqual(client.rest(), b"")
            with weir.admit("s3cret") as client:
                self.assertEqual(client.ask("PING"), "PONG")
        finally:
            for client in clients:
                client.close()

    def test_a_reset_brings_them_back(self):
        data = server.encode("AUTH", "s3cret") + server.encode("RESET") + server.encode("ECHO", "x" * 20000)
        self.assertEqual(self.say(data), b"+OK\r\n+RESET\r\n-ERR Protocol error: unauthenticated bulk length\r\n")


class Waiting(server.ServerTest):
    """WEIR.ACQUIRE over sockets."""

    POLICY = "policies: [{name: slow, limits: 1/s}]\n"

    def test_first_come_first_served_and_the_clock_decides(self):
        weir = self.start("--test-clock", config=self.POLICY, threads=3)
        with weir.connect() as clock:
            clock.ask("WEIR.TAKE", "slow", "k")
            waiting = [weir.connect(version=3) for _ in range(6)]
            for place, client in enumerate(waiting):
                client.send("WEIR.ACQUIRE", "slow", "k", 1, "TIMEOUT", 60000)
                while f"blocked_clients:{place + 1}\r\n" not in clock.ask("INFO", "clients"):
                    pass
            for client in waiting:
                clock.ask("WEIR.CLOCK", "ADVANCE", 999)
                clock.ask("WEIR.CLOCK", "ADVANCE", 1)
                self.assertEqual(client.read()["allowed"], True)
            for client in waiting:
                client.close()

    def test_who_leaves_gives_back(self):
        weir = self.start("--test-clock", config=self.POLICY)
        with weir.connect() as clock, weir.connect() as patient:
            clock.ask("WEIR.TAKE", "slow", "k")
            with weir.connect() as leaver:
                leaver.send("WEIR.ACQUIRE", "slow", "k", 1, "TIMEOUT", 60000)
                while "blocked_clients:1\r\n" not in clock.ask("INFO", "clients"):
                    pass
            while "blocked_clients:0\r\n" not in clock.ask("INFO", "clients"):
                pass
            patient.send("WEIR.ACQUIRE", "slow", "k", 1, "TIMEOUT", 1000)
            while "blocked_clients:1\r\n" not in clock.ask("INFO", "clients"):
                pass
            clock.ask("WEIR.CLOCK", "ADVANCE", 1000)
            self.assertEqual(patient.read()[1], 1)

    def test_in_real_time_with_a_pipeline_behind_it(self):
        weir = self.start(config="policies: [{name: quick, limits: 1/50ms}]\n")
        with weir.connect() as client:
            replies = client.pipeline(["WEIR.TAKE", "quick", "k"], ["WEIR.ACQUIRE", "quick", "k", 1, "TIMEOUT", 5000],
                                      ["WEIR.ACQUIRE", "quick", "k", 1, "TIMEOUT", 5000], ["PING"])
            self.assertEqual([reply[1] for reply in replies[:3]], [1, 1, 1])
            self.assertEqual(replies[3], "PONG")


class Clients(server.ServerTest):
    def test_list_and_kill_across_threads(self):
        weir = self.start(threads=4)
        clients = [weir.connect() for _ in range(8)]
        try:
            for number, client in enumerate(clients):
                client.ask("CLIENT", "SETNAME", f"n{number}")
            lines = clients[0].ask("CLIENT", "LIST").splitlines()
            self.assertEqual(sorted(line.split(" name=")[1].split()[0] for line in lines), [f"n{n}" for n in range(8)])
            victim = clients[5].ask("CLIENT", "ID")
            self.assertEqual(clients[0].ask("CLIENT", "KILL", "ID", victim), 1)
            self.assertEqual(clients[5].rest(), b"")
            self.assertEqual(clients[0].ask("CLIENT", "KILL", "ID", victim), 0)
            while len(clients[1].ask("CLIENT", "LIST").splitlines()) != 7:
                pass
        finally:
            for client in clients:
                client.close()

    def test_many_who_list_each_other(self):
        weir = self.start(threads=4)

        def list_often():
            with weir.connect() as client:
                for _ in range(200):
                    client.pipeline(["CLIENT", "LIST"], ["CLIENT", "SETNAME", "x"], ["CLIENT", "SETNAME", ""])

        threads = [threading.Thread(target=list_often) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with weir.connect() as client:
            self.assertEqual(client.ask("PING"), "PONG")

    def test_a_change_does_not_wait_for_those_who_count(self):
        policies = "".join(f"  - {{name: p{number}, limits: 5/s}}\n" for number in range(50))
        weir = self.start(config="policies:\n" + policies, threads=1)
        clients = [weir.connect() for _ in range(61)]
        try:
            for client in clients:
                self.assertEqual(client.ask("PING"), "PONG")
            operator = clients.pop()
            least = len(clients)
            for _ in range(10):  # a busy machine may keep us from looking in time
                for client in clients:
                    client.send("WEIR.POLICY", "LIST")
                self.assertEqual(operator.ask("WEIR.POLICY", "MODE", "*", "disabled"), "OK")
                answered, _, _ = select.select([client.socket for client in clients], [], [], 0)
                for client in clients:  # all are answered in the end
                    self.assertEqual(len(client.read()), 50)
                least = min(least, len(answered))
                if least < len(clients) // 2:
                    return
            self.fail(f"at least {least} others were answered first")
        finally:
            for client in [operator, *clients]:
                client.close()

    def test_jobs_while_their_client_leaves(self):
        weir = self.start()
        for number in range(30):
            with weir.connect() as client:
                client.send("WEIR.POLICY", "SET", f"p{number}", "5/s")
        with weir.connect() as client:
            replies = client.pipeline(*[["WEIR.POLICY", "SET", "p", "5/s"], ["WEIR.TAKE", "p", "k"]] * 20)
            self.assertEqual(replies[0], "OK")
            self.assertEqual(replies[1][1], 1)
            while len(client.ask("WEIR.POLICY", "LIST")) < 31:
                pass


if __name__ == "__main__":
    server.main()
