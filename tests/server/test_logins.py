#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attacks on logins: old connections that keep rights, strangers that become admin or keep others out, guessing."""

import os
import select
import shutil
import subprocess
import tempfile
import threading

import server

POLICIES = "policies:\n  - {name: api, limits: 1000/s}\n"


def users(*lines):
    return "users:\n" + "".join(f"  - {{{line}}}\n" for line in lines) + POLICIES


OPS = "name: ops, password: ops-secret, may: all"


class Bound(server.ServerTest):
    """A connection is bound to the password and the rights that it logged in with."""

    def reload(self, weir, ops, config):
        weir.configure(config)
        self.assertEqual(ops.ask("WEIR.RELOAD"), "OK")

    def attack(self, before, during, login, request, then=None):
        """Old connections try to use a login that has ended; none may pass, and all are closed."""
        weir = self.start(config=before)
        old = []
        try:
            with weir.connect(user="ops", password="ops-secret") as ops:
                for _ in range(20):
                    old.append(weir.connect())
                    self.assertEqual(old[-1].ask("AUTH", *login), "OK")
                for config in (during, then) if then else (during,):
                    self.reload(weir, ops, config)
                passed = 0
                for client in old:
                    try:
                        passed += not isinstance(client.ask(*request), server.Error)
                    except (server.Closed, ConnectionError):
                        pass
                self.assertEqual(passed, 0, "of 20 old connections")
                for client in old:
                    self.assertEqual(client.rest(), b"")
                self.assertEqual(ops.ask("PING"), "PONG")
        finally:
            for client in old:
                client.close()

    def test_a_changed_password_ends_its_logins(self):
        self.attack(users(OPS, "name: app, password: stolen, may: [take]"),
                    users(OPS, "name: app, password: fresh, may: [take]"),
                    ("app", "stolen"), ("WEIR.TAKE", "api", "k"))

    def test_a_user_made_anew_hands_nothing_to_old_connections(self):
        self.attack(users(OPS, "name: app, password: stolen, may: [look]"), users(OPS),
                    ("app", "stolen"), ("WEIR.POLICY", "SET", "p", "1/s"),
                    then=users(OPS, "name: app, password: fresh, may: all"))

    def test_default_without_a_password_is_no_login_once_it_has_one(self):
        self.attack(users(OPS, "name: default, may: [look]"),
                    users(OPS, "name: default, password: fresh, may: all"),
                    ("default", "whatever"), ("WEIR.POLICY", "SET", "p", "1/s"))

    def test_who_reloads_away_its_own_password_is_answered_first(self):
        weir = self.start(config=users(OPS))
        with weir.connect(user="ops", password="ops-secret") as ops:
            weir.configure(users("name: ops, password: fresh, may: all"))
            self.assertEqual(ops.ask("WEIR.RELOAD"), "OK")
            self.assertEqual(ops.rest(), b"")
        weir.wait_line("event=closed.*why=\"its password or rights were changed\"")

    def test_a_rotation_keeps_those_who_know_a_password_that_stays(self):
        weir = self.start(config=users(OPS, "name: app, password: one, may: [take]"))
        with weir.connect(user="ops", password="ops-secret") as ops, weir.connect(user="app", password="one") as old:
            self.reload(weir, ops, users(OPS, "name: app, password: [one, two], may: [take]"))
            self.assertEqual(old.ask("PING"), "PONG")
            with weir.connect(user="app", password="two") as new:
                self.reload(weir, ops, users(OPS, "name: app, password: two, may: [take]"))
                self.assertEqual(new.ask("PING"), "PONG")
                self.assertEqual(old.rest(), b"")

    def test_client_kill_user(self):
        weir = self.start(config=users(OPS, "name: app, password: x, may: [take]"), threads=3)
        apps = [weir.connect(user="app", password="x") for _ in range(7)]
        with weir.connect(user="ops", password="ops-secret") as ops, \
                weir.connect(user="ops", password="ops-secret") as other:
            self.assertEqual(ops.ask("CLIENT", "KILL", "USER", "app"), 7)
            for client in apps:
                self.assertEqual(client.rest(), b"")
                client.close()
            self.assertEqual(other.ask("PING"), "PONG")
            self.assertEqual(ops.ask("CLIENT", "KILL", "USER", "ops"), 1)  # the others, not who asks
            self.assertEqual(other.rest(), b"")
            self.assertEqual(ops.ask("PING"), "PONG")
            self.assertRegex(ops.ask("CLIENT", "KILL", "USER", "ap"), "^ERR no user 'ap'")


class Opened(server.ServerTest):
    """A file that lost its users does not open the server."""

    def refuse(self, weir, **login):
        weir.configure(POLICIES)
        with weir.connect(**login) as ops:
            self.assertRegex(ops.ask("WEIR.RELOAD"), "^ERR .*weir.yaml: users: is missing, and everybody who can connect "
                             "could do everything; to open the server to everyone, restart it; nothing was changed")
        with weir.connect() as stranger:
            self.assertRegex(stranger.ask("WEIR.POLICY", "MODE", "*", "disabled"), "^(NOAUTH|NOPERM)")

    def test_a_reload_without_users_changes_nothing(self):
        ops = {"user": "ops", "password": "ops-secret"}
        weir = self.start(config=users(OPS))
        self.refuse(weir, **ops)
        check = subprocess.run([server.WEIR, "check", "-s", weir.url().replace("//", "//ops:ops-secret@"), weir.config_path],
                               capture_output=True, text=True, timeout=server.PATIENCE)
        self.assertEqual((check.returncode, check.stdout), (2, ""))
        self.assertIn("weir.yaml: users: is missing, ", check.stderr)
        self.refuse(self.start(config=users(OPS, "name: default, may: [look]")), **ops)
        self.refuse(self.start(config=users("name: default, password: x, may: all")), user="default", password="x")
        self.refuse(self.start("--no-password", config=users(OPS, "name: default, may: [look]")), **ops)

    def test_who_could_do_everything_loses_nothing(self):
        for config in POLICIES, users("name: default, may: all"):
            weir = self.start(config=config)
            weir.configure(POLICIES)
            with weir.connect() as client:
                self.assertEqual(client.ask("WEIR.RELOAD"), "OK")


class NoPassword(server.ServerTest):
    """--no-password is for a server without users."""

    def test_strangers_are_no_admins(self):
        try:
            weir = server.Server("--no-password", config=users(OPS))
        except AssertionError as refused:
            self.assertRegex(str(refused), "--no-password lets every client in as `default`, which users: does not name")
            return
        self.addCleanup(self.end, weir)
        with weir.connect() as stranger:
            self.fail("WEIR.POLICY SET by a stranger: %s" % stranger.ask("WEIR.POLICY", "SET", "p", "1/s"))

    def test_a_reload_that_adds_users_changes_nothing(self):
        weir = self.start("--no-password", config=POLICIES)
        with weir.connect() as client:
            weir.configure(users(OPS))
            self.assertRegex(client.ask("WEIR.RELOAD"), "^ERR .*--no-password.*nothing was changed")
            self.assertEqual(client.ask("PING"), "PONG")

    def test_a_default_in_the_file_has_the_rights_that_it_says(self):
        weir = self.start("--no-password", config=users(OPS, "name: default, password: x, may: [look]"))
        with weir.connect() as stranger:
            self.assertEqual(stranger.ask("PING"), "PONG")
            self.assertRegex(stranger.ask("WEIR.POLICY", "SET", "p", "1/s"), "^NOPERM")


class Crowds(server.ServerTest):
    """Nobody keeps others from logging in."""

    def logins(self, weir, count, user, password):
        """How many of so many logins, one after the other, are not let in; those who are stay."""
        out, clients = 0, []
        for _ in range(count):
            client = weir.connect()
            clients.append(client)
            try:
                out += client.ask("AUTH", user, password) != "OK"
            except (server.Closed, ConnectionError):
                out += 1
        return out, clients

    def test_silent_strangers_keep_nobody_out(self):
        weir = self.start("--max-clients", "400", config=users(OPS))
        silent = [weir.connect() for _ in range(100)]
        out, clients = self.logins(weir, 235, "ops", "ops-secret")
        for client in silent + clients:
            client.close()
        self.assertEqual(out, 0, "of 235 logins were kept out by 100 silent strangers")

    def test_a_flood_of_strangers_keeps_nobody_out(self):
        """They come and come, from one address; who logs in comes from another."""
        weir = self.start("--max-clients", "160", config=users(OPS), unix=True)
        stop, came = threading.Event(), []

        def flood():
            mine = []
            while not stop.is_set():
                mine.append(weir.connect(unix=False))
                if len(mine) > 200:
                    mine.pop(0).close()
                came.append(1)
            for client in mine:
                client.close()

        flooder = threading.Thread(target=flood)
        flooder.start()
        try:
            out = 0
            while len(came) < 1000:
                client = weir.connect(unix=True)
                try:
                    out += client.ask("AUTH", "ops", "ops-secret") != "OK"
                except (server.Closed, ConnectionError):
                    out += 1
                client.close()
            self.assertEqual(out, 0)
        finally:
            stop.set()
            flooder.join()

    def test_one_tenant_does_not_take_all_places(self):
        weir = self.start("--test-clock", "--max-clients", "64",
                          config=users(OPS, "name: a, password: x, may: [take]", "name: b, password: y, may: [take]"))
        clients = []
        try:
            for _ in range(64):
                client = weir.connect()
                clients.append(client)
                if client.ask("AUTH", "a", "x") == "OK":
                    client.send("WEIR.ACQUIRE", "api", "k", 1000, "TIMEOUT", 60000)
            out, others = self.logins(weir, 20, "b", "y")
            clients += others
            self.assertEqual(out, 0, "of 20 logins of another tenant were kept out")
            out, others = self.logins(weir, 4, "ops", "ops-secret")
            clients += others
            self.assertEqual(out, 0, "of 4 logins of the admin were kept out")
        finally:
            for client in clients:
                client.close()

    def test_logging_out_again_gives_the_place_back(self):
        """Both in one batch: in between, nobody looks at who has to log in."""
        weir = self.start("--max-clients", "64",
                          config=users(OPS, "name: a, password: x, may: [take]", "name: b, password: y, may: [take]"))
        clients = []
        try:
            for _ in range(200):
                client = weir.connect()
                clients.append(client)
                try:
                    client.pipeline(["AUTH", "a", "x"], ["RESET"])
                except (server.Closed, ConnectionError):
                    pass
            out, others = self.logins(weir, 20, "b", "y")
            clients += others
            self.assertEqual(out, 0, "of 20 logins of another tenant were kept out")
        finally:
            for client in clients:
                client.close()

    def test_caps_of_the_file(self):
        weir = self.start(config="clients: {per_address: 5, per_user: 3}\n" + users(OPS, "name: a, password: x, may: [take]"))
        with weir.connect(user="ops", password="ops-secret") as ops:
            out, clients = self.logins(weir, 4, "a", "x")
            self.assertEqual(out, 1)
            while len(ops.ask("CLIENT", "LIST").splitlines()) > 4:
                pass
            fifth = weir.connect(user="ops", password="ops-secret")
            with weir.connect() as sixth:
                self.assertEqual(sixth.rest(), b"-ERR max number of clients reached\r\n")
            weir.wait_line('client-refused.*why="as many from its address as may be"')
            for client in [*clients, fifth]:
                client.close()


class Guessing(server.ServerTest):
    """Wrong passwords block one address as one user, and nobody else."""

    def test_a_client_with_an_old_password_locks_nobody_out(self):
        weir = self.start(config=users(OPS, "name: app, password: right, may: [take]"))
        out = 0
        with weir.connect() as stale:
            for _ in range(50):
                for reply in stale.pipeline(*[["AUTH", "app", "old"]] * 20):
                    self.assertRegex(reply, "^WRONGPASS")
                with weir.connect() as client:
                    out += client.ask("AUTH", "app", "right") != "OK"
        self.assertEqual(out, 0, "of 50 logins with the right password")
        self.assertRegex(weir.wait_line("login-failed"), r"address=127\.0\.0\.1:\d+ user=app")

    def test_the_log_names_the_user_that_was_tried(self):
        weir = self.start(config=users(OPS))
        with weir.connect() as client:
            client.ask("AUTH", "no\none=\"", "x")
            client.ask("AUTH", "u" * 5000, "x")
        weir.wait_line(r'event=login-failed address=\S+ user="no\?one=\\""')
        weir.wait_line(r"event=login-failed address=\S+ user=u{60,64}\S{0,3}$")

    def test_guesses_of_a_unix_socket_are_counted(self):
        weir = self.start(config=users(OPS), unix=True)
        looked_at = 0
        for number in range(100):
            with weir.connect(unix=True) as client:
                looked_at += client.ask("AUTH", "ops", f"guess-{number}").startswith("WRONGPASS")
        self.assertLessEqual(looked_at, 20)
        with weir.connect(user="ops", password="ops-secret") as other:  # by TCP
            self.assertRegex(other.ask("CLIENT", "LIST"), r"addr=127\.0\.0\.1:\d+ ")


class Slow(server.ServerTest):
    """A password that is kept as a slow hash is checked beside the others' work."""
    HASH = "$y$j9T$aNaNaNaNaNaNaNaNaNaNa/$k19mIRZbbmx2ONRus9ZGJLA6j19.zSt0jRUx1mLYUdD"  # right horse

    def test_a_flood_of_wrong_ones_stalls_nobody(self):
        weir = self.start(config=users(OPS, f'name: app, password_crypt: "{self.HASH}", may: [take]'), threads=1)
        floods = [weir.connect() for _ in range(8)]
        try:
            with weir.connect(user="ops", password="ops-secret") as ops:
                for number, client in enumerate(floods):
                    client.raw(b"".join(server.encode("AUTH", f"no-{number}-{time}", "x") for time in range(5)))
                answers = 0
                while select.select([client.socket for client in floods], [], [], 0)[0] != [c.socket for c in floods]:
                    self.assertEqual(ops.ask("PING"), "PONG")
                    answers += 1
                self.assertGreater(answers, 8, "answers to another client while eight passwords were checked")
        finally:
            for client in floods:
                client.close()

    def test_many_log_in_together_for_the_first_time(self):
        weir = self.start(config=users(OPS, f'name: app, password_crypt: "{self.HASH}", may: [take]'), threads=2)
        clients = [weir.connect() for _ in range(50)]
        for client in clients:
            client.send("AUTH", "app", "right horse")
        self.assertEqual([client.read() for client in clients], ["OK"] * 50)
        for client in clients:
            client.close()

    def test_many_log_in_at_once(self):
        weir = self.start(config=users(OPS, f'name: app, password_crypt: "{self.HASH}", may: [take]'))
        with weir.connect() as first:
            self.assertEqual(first.ask("AUTH", "app", "right horse"), "OK")
            clients = [weir.connect() for _ in range(50)]
            for client in clients:
                client.send("AUTH", "app", "right horse")
            for client in clients:
                self.assertEqual(client.read(), "OK")
                client.close()


class OpenFiles(server.ServerTest):
    """Files that other users of the machine can read draw a warning, those that they can write are refused."""

    def folder(self, mode):
        folder = tempfile.mkdtemp(prefix="weir-")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, mode)
        return folder

    def password(self, mode):
        path = os.path.join(self.folder(0o700), "password")
        with open(path, "w", encoding="ascii") as file:
            file.write("s3cret\n")
        os.chmod(path, mode)
        return path

    def test_a_data_directory(self):
        with self.assertRaisesRegex(AssertionError, r"can be written by every user \(mode 0707\); chmod 700 it"):
            server.Server("--data", self.folder(0o707))
        self.start("--data", self.folder(0o755)).wait_line("event=data-directory-open")
        weir = self.start("--data", self.folder(0o700))
        self.assertNotIn("-open", "".join(weir.lines))

    def test_a_password_file(self):
        def config(mode):
            return users(f"name: app, password_file: {self.password(mode)}, may: all")

        with self.assertRaisesRegex(AssertionError, "can be written by every user"):
            server.Server(config=config(0o606))
        weir = self.start(config=config(0o604))
        self.assertRegex(weir.wait_line("event=password-file-open"), "user=app file=/")
        weir.connect(user="app", password="s3cret").close()
        self.assertNotIn("-open", "".join(self.start(config=config(0o640)).lines))

    def test_the_password_file_of_the_command_line(self):
        with self.assertRaisesRegex(AssertionError, "every user of this machine can write to it"):
            server.Server("--password-file", self.password(0o606))
        self.start("--password-file", self.password(0o604)).wait_line("warning: every user of this machine can read")


class Audit(server.ServerTest):
    def test_a_flood_of_other_lines_hides_no_change(self):
        weir = self.start(config=users(OPS))
        with weir.connect(user="ops", password="ops-secret") as ops, weir.connect() as stranger:
            stranger.pipeline(*[["AUTH", "nobody", "x"]] * 500)
            replies = ops.pipeline(*[["WEIR.OVERRIDE", "SET", "api", f"k{number}", "5/s"] for number in range(300)])
            self.assertEqual(replies, ["OK"] * 300)
        weir.wait_line("event=override-set .*key=k299 ")
        said = sum("event=override-set" in line for line in weir.lines)
        self.assertEqual(said, 300, "of 300 changes are in the log")


if __name__ == "__main__":
    server.main()
