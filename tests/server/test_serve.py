#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir serve as an operator has it: flags, variables, files, signals, systemd, passwords."""

import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import server

POLICIES = "policies:\n  - {name: api, limits: [100/s burst=5]}\n"


class Refused(unittest.TestCase):
    """What cannot start says what to do, in one line, and ends with status 2."""

    def refuse(self, *arguments, folder=None, before=None, **variables):
        done = subprocess.run([server.WEIR, "serve", *arguments], capture_output=True, text=True, cwd=folder,
                              env=server.environment(**variables), timeout=server.PATIENCE, stdin=subprocess.DEVNULL,
                              preexec_fn=before)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_unknown_flag(self):
        self.assertEqual(self.refuse("--thread", "3"),
                         "weir serve: unknown option '--thread'; did you mean --threads?\n")

    def test_a_word_too_many(self):
        self.assertEqual(self.refuse("weir.yaml"),
                         "weir serve: unknown word 'weir.yaml'; a file is named by --config\n")

    def test_values_that_make_no_sense(self):
        for flag, value, what in (("--threads", "0", "a number from 1 to 64"),
                                  ("--threads", "many", "a number from 1 to 64"),
                                  ("--memory", "1MiB", "a size of at least 8MiB, in MiB or GiB, such as 1GiB"),
                                  ("--max-clients", "-1", "a number from 1 to 1M"),
                                  ("--log-format", "xml", "logfmt or json"),
                                  ("--log-level", "loud", "debug, info, warn or error"),
                                  ("--data", "d" * 401, "a path of at most 400 bytes, or none"),
                                  ("--fsync", "sometimes", "always, everysec or never")):
            self.assertEqual(self.refuse(flag, value), f"weir serve: {flag} takes {what}, not '{value}'\n")
        self.assertEqual(self.refuse(WEIR_LOG_LEVEL="loud"),
                         "weir serve: WEIR_LOG_LEVEL takes debug, info, warn or error, not 'loud'\n")

        self.assertEqual(self.refuse("--memory", "1TiB"), "weir serve: --memory takes a size of at least 8MiB, in MiB "
                         "or GiB, such as 1GiB, not '1TiB'\n")
        self.assertEqual(self.refuse("--unix", "unix:///run/weir.sock"), "weir serve: --unix takes a path alone, such as "
                         "/run/weir/weir.sock, not 'unix:///run/weir.sock'\n")

    def test_too_few_descriptors(self):
        """It says how many it needs; with as many it starts, and lets clients in."""
        def limit(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        for threads in "1", "8":
            told = self.refuse("--threads", threads, "--resp", "127.0.0.1:0", before=limit(24, 24))
            found = re.fullmatch(r"weir serve: 24 file descriptors are too few: (\d+) are needed, \d+ of them for clients; "
                                 r"raise the limit \(ulimit -n, LimitNOFILE=\)\n", told)
            self.assertTrue(found, told)
            needed = int(found.group(1))
            self.assertEqual(needed, 8 + 40 + 4 * (int(threads) + 2))  # as docs/operations.md says
            with tempfile.TemporaryDirectory(prefix="weir-few-") as folder:
                for soft in needed, 24:  # the soft limit is raised as far as the hard one
                    weir = server.Server("--data", os.path.join(folder, "data"), threads=threads, config=POLICIES,
                                         before=limit(soft, needed))
                    clients = []
                    try:
                        for _ in range(8):
                            clients.append(weir.connect())
                            self.assertEqual(clients[-1].ask("PING"), "PONG")
                        self.assertEqual(clients[0].ask("WEIR.IMAGE"), "OK")
                    finally:
                        for client in clients:
                            client.close()
                        weir.stop()

    def test_more_memory_than_there_is(self):
        self.assertRegex(self.refuse("--memory", "900000GiB"),
                         r"^weir serve: a memory of 921600000 MiB is more than this machine has, which is \d+ MiB; "
                         r"lower --memory, or memory: in the configuration\n$")

    def test_words_of_other_servers(self):
        self.assertIn("--resp 127.0.0.1:9049", self.refuse("--port", "9049"))
        self.assertIn("--resp 127.0.0.1:9049", self.refuse("--port=9049"))
        self.assertIn("--config FILE", self.refuse("-c", "weir.yaml"))

    def test_switches_are_yes_or_no(self):
        for value in ("off", "maybe", "No", "2"):
            self.assertEqual(self.refuse("--resp", ":0", WEIR_NO_PASSWORD=value),
                             "weir serve: WEIR_NO_PASSWORD takes 1, yes or true, or 0, no or false, "
                             f"not '{value}'\n")
        for value in ("no", "0", "false", ""):
            self.assertIn("there is no password", self.refuse("--resp", "0.0.0.0:0", WEIR_NO_PASSWORD=value))

    def test_addresses_that_make_no_sense(self):
        for address in ("127.0.0.1", "localhost:", "::1:9049", "127.0.0.1:http", "127.0.0.1:123456"):
            self.assertIn("write host:port, such as 127.0.0.1:9049", self.refuse("--resp", address))
        self.assertIn("is no address of this machine", self.refuse("--resp", "192.0.2.1:0"))
        self.assertIn("nowhere to listen", self.refuse("--resp", "none"))
        for kind in "http", "admin":
            self.assertIn("can be reached from elsewhere and there is no password",
                          self.refuse("--resp", "none", "--" + kind, "0.0.0.0:0"))

    def test_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            self.assertEqual(self.refuse("--resp", f"127.0.0.1:{port}"),
                             f"weir serve: 127.0.0.1:{port} is in use; is another weir running? "
                             "--resp 127.0.0.1:9061 takes another port\n")
            self.assertEqual(self.refuse("--http", f"127.0.0.1:{port}", "--resp", "127.0.0.1:0"),
                             f"weir serve: 127.0.0.1:{port} is in use; is another weir running? "
                             "--http 127.0.0.1:9061 takes another port, --http none does without\n")

    def test_unix_sockets_that_cannot_be(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            with open(path, "w", encoding="ascii"):
                pass
            self.assertIn("is no socket", self.refuse("--resp", "none", "--unix", path))
            self.assertTrue(os.path.exists(path))
            os.unlink(path)
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(path)
                other.listen()
                self.assertIn("is in use", self.refuse("--resp", "none", "--unix", path))
            self.assertIn("1 to 107 bytes", self.refuse("--resp", "none", "--unix", "/" + "x" * 120))
            self.assertIn("No such file", self.refuse("--resp", "none", "--unix", folder + "/no/such"))

    def test_bad_files(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "weir.yaml"), "w", encoding="utf-8") as file:
                file.write("policies:\n  - {name: api, limts: 5/s}\n")
            error = subprocess.run([server.WEIR, "serve", "--config", "weir.yaml"], capture_output=True, text=True,
                                   cwd=folder, env=server.environment(), timeout=server.PATIENCE)
            self.assertEqual((error.returncode, error.stdout), (2, ""))
            self.assertRegex(error.stderr, r"(?m)^weir.yaml:2:\d+: .*'limts'.*did you mean limits\?$")
        self.assertIn("No such file", self.refuse("--config", "/nowhere/weir.yaml"))

    def test_passwords(self):
        self.assertIn("exclude each other", self.refuse("--password-file", "f", "--no-password"))
        self.assertIn("No such file", self.refuse("--password-file", "/nowhere/password"))
        self.assertIn("1 to 512 bytes", self.refuse("--password-file", "/dev/null"))
        self.assertIn("1 to 512 bytes", self.refuse("--password-file", "/dev/zero"))

    def test_others_need_a_password(self):
        self.assertRegex(self.refuse("--resp", "0.0.0.0:0"),
                         r"^weir serve: 0\.0\.0\.0:\d+ can be reached from elsewhere and there is no password; "
                         r"give --password-file FILE, or --no-password if something in front of weir asks for one\n$")

    def test_others_must_not_set_the_clock(self):
        self.assertIn("--test-clock lets any client set the time",
                      self.refuse("--resp", "0.0.0.0:0", "--test-clock", "--no-password"))

    def test_sockets_of_systemd_that_are_none(self):
        with tempfile.TemporaryFile() as file:
            done = subprocess.run(
                ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS=1 exec "{server.WEIR}" serve 3<&{file.fileno()}'],
                capture_output=True, text=True, env=server.environment(), pass_fds=[file.fileno()],
                timeout=server.PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("descriptor 3 was handed over and is no listening stream socket", done.stderr)


class Started(server.ServerTest):
    def test_says_where_it_listens_and_what_it_loaded(self):
        weir = self.start(config=POLICIES, unix=True)
        log = "\n".join(weir.lines)
        self.assertRegex(log, rf"level=info event=listening on=127\.0\.0\.1:{weir.port}")
        self.assertIn(f"event=listening on=unix:{weir.path}", log)
        self.assertRegex(log, r"event=loaded config=\S+weir.yaml policies=1 memory=268435456 keys_that_fit=\d+")
        self.assertIn("everything is in memory alone; --data DIR keeps it", log)
        self.assertIn(f'try="redis-cli -p {weir.port} WEIR.TAKE api some-key"', log)

    def test_something_to_try(self):
        """It overwrites nothing, and whoever needs to log in is told so."""
        weir = self.start()
        self.assertIn(f'try="redis-cli -p {weir.port} WEIR.POLICY SET api 100/s"', weir.lines[-1])
        weir = self.start(config="users: [{name: app, password: x, may: [take]}]\n" + POLICIES)
        self.assertIn(f'try="redis-cli -p {weir.port} --user app --askpass WEIR.TAKE api some-key"', weir.lines[-1])
        weir = self.start(config="users: [{name: app, password: x, may: [look]}, "
                                 "{name: default, password: y, may: all}]\n" + POLICIES)
        self.assertIn(f'try="redis-cli -p {weir.port} --askpass WEIR.TAKE api some-key"', weir.lines[-1])

    def test_both_doors_lead_to_one_server(self):
        weir = self.start("--test-clock", config=POLICIES, unix=True)
        with weir.connect(unix=False) as tcp, weir.connect(unix=True) as unix:
            self.assertEqual(tcp.ask("WEIR.TAKE", "api", "k", 5)[1], 1)
            self.assertEqual(unix.ask("WEIR.TAKE", "api", "k", 5)[1], 0)

    def test_unix_socket_alone_and_old_files(self):
        weir = self.start(tcp=False, unix=True)
        self.assertEqual(stat.S_IMODE(os.stat(weir.path).st_mode), 0o660)
        weir.process.kill()  # it cannot clean up
        weir.process.wait()
        self.assertTrue(os.path.exists(weir.path))
        next_one = self.start("--resp", "none", "--unix", weir.path, tcp=None)
        with server.Client(weir.path) as client:
            self.assertEqual(client.ask("PING"), "PONG")
        next_one.stop()
        self.assertFalse(os.path.exists(weir.path))

    def test_an_idle_server_is_small(self):
        """Room for request ids, reservations and client keys, a third of `memory:`, is taken when it is used."""
        if "asan" in server.WEIR or "tsan" in server.WEIR:
            self.skipTest("sanitizers have memory of their own")
        for memory in ("256MiB", "1GiB"):
            weir = self.start("--memory", memory)
            with weir.connect() as client:
                self.assertEqual(client.ask("CL.THROTTLE", "k", "1", "1", "60")[0], 0)
                self.assertEqual(client.ask("RL.REDUCE", "k", "1", "60"), 1)
                for _ in range(100):  # what the background thread goes through
                    client.ask("WEIR.POLICY", "LIST")
            self.assertLess(weir.memory(), 20 << 20)
            weir.stop()

    def test_json_lines(self):
        weir = self.start("--log-format", "json")
        weir.stop()
        events = [json.loads(line)["event"] for line in weir.lines]
        self.assertEqual(events[0], "listening")
        self.assertEqual(events[-1], "stopped")

    def test_log_level(self):
        weir = self.start("--log-level", "error", "--resp", "none", unix=True, tcp=None, ready=False)
        while weir.process.poll() is None:  # it is quiet, so the socket has to tell
            try:
                with server.Client(weir.path) as client:
                    self.assertEqual(client.ask("PING"), "PONG")
                break
            except (FileNotFoundError, ConnectionRefusedError):
                os.sched_yield()
        weir.stop()
        self.assertEqual(weir.lines, [])

    def test_variables(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            weir = self.start(tcp=None, threads=None, env={"WEIR_RESP": "127.0.0.1:0", "WEIR_UNIX": path,
                                                           "WEIR_THREADS": "3", "WEIR_TEST_CLOCK": "1",
                                                           "WEIR_MAX_CLIENTS": "7", "WEIR_LOG_FORMAT": "json"})
            self.assertEqual(json.loads(weir.lines[-1])["threads"], 3)
            with server.Client(path) as client:
                self.assertEqual(client.ask("WEIR.CLOCK", "SET", "5000"), "OK")
                self.assertIn("maxclients:7\r\n", client.ask("INFO", "clients"))

    def print_config(self, *arguments, config=None, **variables):
        with tempfile.TemporaryDirectory() as folder:
            line = [server.WEIR, "serve", "--print-config", *arguments]
            if config is not None:
                with open(os.path.join(folder, "weir.yaml"), "w", encoding="utf-8") as file:
                    file.write(config)
                line += ["--config", "weir.yaml"]
            done = subprocess.run(line, capture_output=True, text=True, cwd=folder, timeout=server.PATIENCE,
                                  env=server.environment(**variables))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_flag_above_variable_above_file_above_default(self):
        file = "listen: {resp: \"127.0.0.1:1111\"}\n"
        variable = {"WEIR_RESP": "127.0.0.1:2222"}
        self.assertIn("127.0.0.1:9049", self.print_config())
        self.assertIn("127.0.0.1:1111", self.print_config(config=file))
        self.assertIn("127.0.0.1:2222", self.print_config(config=file, **variable))
        self.assertIn("127.0.0.1:3333", self.print_config("--resp", "127.0.0.1:3333", config=file, **variable))

    def test_printed_configuration_is_read_back(self):
        printed = self.print_config("--memory", "64MiB", "--max-clients", "99", config=POLICIES)
        self.assertIn("memory: 64MiB", printed)
        self.assertEqual(self.print_config(config=printed), printed)
        for size in ("256MB", "256MiB", "1GB", "100000KiB", "8388609"):
            self.assertIn(f"memory: {size}\n", self.print_config("--memory", size))


class Passwords(server.ServerTest):
    def write(self, text):
        file = tempfile.NamedTemporaryFile("w", encoding="utf-8")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_password_file(self):
        weir = self.start("--password-file", self.write("s3cret\nnot this\n"))
        with weir.connect() as client:
            self.assertEqual(client.ask("PING"), server.Error("NOAUTH Authentication required."))
            self.assertTrue(client.ask("AUTH", "wrong").startswith("WRONGPASS"))
            self.assertEqual(client.ask("AUTH", "s3cret"), "OK")
            self.assertEqual(client.ask("PING"), "PONG")
        self.assertNotIn("s3cret", "\n".join(weir.lines))

    def test_others_may_come_with_a_password_or_if_told_so(self):
        for arguments in ["--password-file", self.write("s3cret")], ["--no-password"]:
            weir = self.start("--resp", "0.0.0.0:0", *arguments, tcp=None)
            warned = [line for line in weir.lines if "level=warn event=no-password on=0.0.0.0:" in line]
            self.assertEqual(len(warned), len(arguments) == 1)
            with weir.connect(password="s3cret" if len(arguments) > 1 else None) as client:
                self.assertEqual(client.ask("PING"), "PONG")

    def test_the_command_line_is_above_the_variable(self):
        weir = self.start("--no-password", env={"WEIR_PASSWORD_FILE": self.write("s3cret")})
        with weir.connect() as client:
            self.assertEqual(client.ask("PING"), "PONG")
        weir = self.start("--password-file", self.write("s3cret"), env={"WEIR_NO_PASSWORD": "1"})
        with weir.connect() as client:
            self.assertTrue(client.ask("PING").startswith("NOAUTH"))

    def test_strangers_have_to_log_in_soon(self):
        weir = self.start("--password-file", self.write("s3cret"), "--login-timeout-ms", "100")
        with weir.admit("s3cret") as known, weir.connect() as stranger:
            port = stranger.socket.getsockname()[1]
            self.assertEqual(stranger.rest(), b"")
            weir.wait_line(rf"event=closed client=127\.0\.0\.1:{port} .*did not log in")
            self.assertEqual(known.ask("PING"), "PONG")


class Stopped(server.ServerTest):
    def test_answers_on_their_way_are_delivered(self):
        weir = self.start(config=POLICIES)
        with weir.connect() as busy, weir.connect() as idle:
            self.assertEqual(idle.ask("PING"), "PONG")
            self.assertEqual(busy.ask("PING"), "PONG")
            busy.raw(server.encode("WEIR.TAKE", "api", "k") * 1000)
            busy.arrived()
            weir.signal(signal.SIGTERM)
            got = busy.rest()
            self.assertEqual(got.count(b"$7\r\nallowed\r\n"), 1000)
            self.assertEqual(idle.rest(), b"")
        self.assertEqual(weir.wait(), 0)

    def test_a_wait_that_ends_soon_is_waited_for(self):
        weir = self.start(config="policies: [{name: slow, limits: 1/300ms}]\n")
        with weir.connect(version=3) as client:
            client.ask("WEIR.TAKE", "slow", "k")
            client.send("WEIR.ACQUIRE", "slow", "k", 1, "TIMEOUT", 5000)
            client.arrived()  # it has been read, or the drain reads it
            weir.signal(signal.SIGTERM)
            self.assertEqual(client.read()["allowed"], True)
        self.assertEqual(weir.wait(), 0)

    def test_a_wait_that_does_not_end_is_told(self):
        weir = self.start("--test-clock", "--drain-ms", "100", config="policies: [{name: slow, limits: 1/h}]\n")
        with weir.connect() as client:
            client.ask("WEIR.TAKE", "slow", "k")
            client.send("WEIR.ACQUIRE", "slow", "k", 1, "TIMEOUT", 7200000)
            weir.signal(signal.SIGTERM)
            self.assertEqual(client.rest(), b"-UNAVAILABLE the server is stopping; nothing was taken\r\n")
        self.assertEqual(weir.wait(), 0)

    def test_nobody_is_let_in_any_more(self):
        weir = self.start("--test-clock", config="policies: [{name: slow, limits: 1/h}]\n")
        with weir.connect() as client:
            client.ask("WEIR.TAKE", "slow", "k")
            client.send("WEIR.ACQUIRE", "slow", "k", 1, "TIMEOUT", 7200000)
            weir.signal(signal.SIGTERM)
            weir.wait_line("event=stopping")
            deadline = time.monotonic() + server.PATIENCE
            with self.assertRaises(OSError):
                while time.monotonic() < deadline:
                    server.Client(weir.address()).close()
            weir.signal(signal.SIGTERM)  # the second one is in a hurry
            self.assertEqual(weir.wait(), 0)

    def test_interrupt(self):
        weir = self.start()
        weir.signal(signal.SIGINT)
        self.assertEqual(weir.wait(), 0)


class Reloaded(server.ServerTest):
    def test_a_good_file(self):
        weir = self.start(config=POLICIES)
        with weir.connect() as client:
            self.assertEqual(client.ask("WEIR.TAKE", "api", "k", 5)[1], 1)
            weir.configure(POLICIES + "  - {name: login, limits: [5/m]}\n")
            weir.signal(signal.SIGHUP)
            weir.wait_line("event=reloaded")
            self.assertEqual(client.ask("WEIR.TAKE", "login", "k")[1], 1)

    def test_a_bad_file_changes_nothing(self):
        weir = self.start(config=POLICIES)
        weir.configure("policies:\n  - {name: api, limits: [100/s brust=5]}\n")
        weir.signal(signal.SIGHUP)
        weir.wait_line("level=error event=reload-failed .*brust")
        with weir.connect() as client:
            self.assertEqual(client.ask("WEIR.TAKE", "api", "k")[1], 1)
            reply = client.ask("WEIR.RELOAD")
            self.assertIsInstance(reply, server.Error)
            self.assertIn("brust", reply)

    def test_by_command(self):
        weir = self.start(config=POLICIES)

        def reload(*arguments):
            done = subprocess.run([server.WEIR, "reload", "-s", weir.url(), *arguments], capture_output=True,
                                  text=True, env=server.environment(), timeout=server.PATIENCE)
            return done.returncode, done.stdout, done.stderr

        status, out, err = reload()
        self.assertEqual((status, err), (0, ""))
        self.assertTrue(out)
        status, out, err = reload("--json")
        self.assertEqual((status, err, json.loads(out)), (0, "", {"reloaded": True}))
        weir.configure("log: {format: json}\n" + POLICIES)
        self.assertEqual(reload(), (0, "reloaded\nlog counts from the next start on\n", ""))
        status, out, err = reload("--json")
        self.assertEqual((status, err, json.loads(out)),
                         (0, "", {"reloaded": True, "note": "log counts from the next start on"}))
        weir.configure("policies: 5\n")
        status, out, err = reload()
        self.assertEqual((status, out), (2, ""))
        self.assertIn("weir reload: ", err)
        with weir.connect() as client:
            self.assertEqual(client.ask("WEIR.TAKE", "api", "k")[1], 1)


class Systemd(server.ServerTest):
    def start_on_bus(self, **variables):
        """A server, and where it says how it is. The socket keeps some messages; whatever comes then is dropped."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        bus = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(bus.close)
        path = os.path.join(folder.name, "notify")
        bus.bind(path)
        bus.settimeout(server.PATIENCE)
        weir = self.start(config=POLICIES, env={"NOTIFY_SOCKET": path, **variables})
        self.assertEqual(bus.recv(4096), b"READY=1\nSTATUS=serving")
        return weir, bus

    def test_it_is_told_when_ready_reloading_and_stopping(self):
        weir, bus = self.start_on_bus()
        weir.signal(signal.SIGHUP)
        self.assertEqual([bus.recv(4096) for _ in range(2)], [b"RELOADING=1", b"READY=1"])
        weir.stop()
        self.assertEqual(bus.recv(4096), b"STOPPING=1")

    def test_its_watchdog_is_fed(self):
        _, bus = self.start_on_bus(WATCHDOG_USEC="40000")
        self.assertEqual([bus.recv(4096) for _ in range(3)], [b"WATCHDOG=1"] * 3)

    def test_a_socket_that_is_handed_over(self):
        with socket.create_server(("127.0.0.1", 0)) as door:
            port = door.getsockname()[1]
            process = subprocess.Popen(
                ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS=1 exec "{server.WEIR}" serve 3<&{door.fileno()}'],
                stderr=subprocess.PIPE, text=True, env=server.environment(), pass_fds=[door.fileno()])
            try:
                with server.Client(("127.0.0.1", port)) as client:  # it waits in the backlog until weir is there
                    self.assertEqual(client.ask("PING"), "PONG")
                process.send_signal(signal.SIGTERM)
                _, log = process.communicate(timeout=server.PATIENCE)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        self.assertEqual(process.returncode, 0, log)
        self.assertIn(f"event=listening on=127.0.0.1:{port} for=resp", log)
        self.assertEqual(log.count("event=listening"), 1)

    def test_sockets_that_are_handed_over_have_a_name(self):
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
            ports = [door.getsockname()[1] for door in (one, two)]
            process = subprocess.Popen(
                ["sh", "-c", f'LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=http:weir.socket exec "{server.WEIR}" serve '
                 f'3<&{one.fileno()} 4<&{two.fileno()}'],
                stderr=subprocess.PIPE, text=True, env=server.environment(), pass_fds=[one.fileno(), two.fileno()])
            try:
                with server.Client(("127.0.0.1", ports[1])) as client:
                    listeners = [line for line in client.ask("INFO", "server").split("\r\n") if line.startswith("listener")]
                with server.Client(("127.0.0.1", ports[0])) as client:
                    client.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    self.assertTrue(client.first_line().startswith(b"HTTP/1.1 "))
                process.send_signal(signal.SIGTERM)
                _, log = process.communicate(timeout=server.PATIENCE)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        self.assertEqual(listeners, [f"listener0:name=http,address=127.0.0.1:{ports[0]}",
                                     f"listener1:name=resp,address=127.0.0.1:{ports[1]}"])
        self.assertIn(f"event=listening on=127.0.0.1:{ports[0]} for=http", log)


if __name__ == "__main__":
    server.main()
