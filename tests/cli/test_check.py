#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""weir check: what it says about files, right and wrong, and about a server beside them."""

import json
import pathlib
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))

import command  # noqa: E402
import server  # noqa: E402

# Nobody listens on port 1, so nothing is compared unless a test has a server.
NOWHERE = "redis://127.0.0.1:1"
SUMMARY = "7.7 million keys of one limit each\n"


def bulk(text):
    return b"_\r\n" if text is None else b"$%d\r\n%s\r\n" % (len(text), text)


def policy(name, limits, mode=b"enforce", percent=100, candidate=None, origin=b"file"):
    """As WEIR.POLICY LIST answers, its first fields."""
    return (b"%6\r\n" + bulk(b"name") + bulk(name) + bulk(b"limits") + bulk(limits) + bulk(b"mode") + bulk(mode)
            + bulk(b"percent") + b":%d\r\n" % percent + bulk(b"candidate") + bulk(candidate)
            + bulk(b"from") + bulk(origin))


class FakeServer:
    """Answers HELLO, and any other question with the same bytes."""

    def __init__(self, answer):
        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while line := self.rfile.readline():
                    words = []
                    for _ in range(int(line[1:])):
                        length = int(self.rfile.readline()[1:])
                        words.append(self.rfile.read(length + 2)[:-2])
                    hello = words[0].upper() == b"HELLO"
                    self.wfile.write(b"%1\r\n$5\r\nproto\r\n:3\r\n" if hello else answer)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"redis://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self.url

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class CheckTest(command.CommandTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = str(pathlib.Path(folder.name) / "w.yaml")

    def write(self, text):
        pathlib.Path(self.file).write_text(text, encoding="utf-8")

    def mistakes(self, text):
        """What is said about a file, with its name made short, and the caret moved along."""
        self.write(text)
        done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        cut = len(self.file) - len("w.yaml")
        lines = done.stderr.splitlines()
        return [line.replace(self.file, "w.yaml") if self.file in line else line[cut:] for line in lines]

    def test_a_long_path_keeps_line_and_column(self):
        folder = pathlib.Path(self.file).parent / ("d" * 70)
        folder.mkdir()
        self.file = str(folder / "w.yaml")
        self.write("policies:\n  - name: api\n    limits: 100/s\n    keys: 500000000000\n")
        done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr.startswith(f"{self.file}:2:5: 500000000000 keys need"), done.stderr)

    def test_candidates_are_shown(self):
        self.write("policies:\n  - name: api\n    limits: 100/s\n    candidate: 50/s\n")
        done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
        self.assertIn("1 policy, 0 overrides, candidate 50/s for api; 256 MiB", done.stdout)

    def test_candidates_are_in_json(self):
        self.write("policies:\n  - {name: api, limits: 100/s, candidate: 50/s burst=9}\n  - {name: b, limits: 1/s}\n")
        document = json.loads(self.output("check", "--json", self.file, WEIR_URL=NOWHERE))
        self.assertEqual(document["candidates"], [{"policy": "api", "limits": "50/s burst=9"}])
        self.write("policies: [{name: b, limits: 1/s}]\n")
        document = json.loads(self.output("check", "--json", self.file, WEIR_URL=NOWHERE))
        self.assertEqual(document["candidates"], [])

    def test_the_example_is_right(self):
        done = self.run_weir("check", str(command.ROOT / "dist/weir.yaml"), WEIR_URL=NOWHERE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, second = done.stdout.splitlines()
        self.assertTrue(first.endswith("weir.yaml: 4 policies, 3 overrides, candidate 30/s burst=60 for search; 256 MiB hold about " + SUMMARY.strip()))
        self.assertTrue(second.startswith("not compared with a server: cannot connect to " + NOWHERE))

    FLEET = """\
policies:
  - name: egress
    limits: [50M/m algo=quota]
    fleet: {coordinator: "zookeeper://:secret@zk1,zk2,zk3/weir", nodes: 500, on_loss: share}
  - name: downloads
    limits: 10k/s burst=20k
    fleet: {coordinator: "redis://cache", base: 100}
  - name: root
    limits: 5M/m algo=quota
    fleet: {coordinator: "local:", nodes: 5}
"""

    def test_what_a_fleet_costs(self):
        self.write(self.FLEET)
        done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.partition("fleet\n")[2], """\
  egress    500 nodes: chunk 1 000, at most 1 % unspent in chunks, 50 000 coordinator writes a minute (833/s)
            coordinator lost: each node may pass 100 000 a minute for itself; worst case, in the minute of the loss: \
twice the total
  downloads 1 node: chunk 100, at most 0.5 % of the burst held in chunks, 100 coordinator writes a second
            coordinator lost: what nodes hold is spent, then all is refused; never above the limit
  root      5 nodes: chunk 10 000, at most 1 % unspent in chunks, 500 coordinator writes a minute (8.3/s)
            this server is the coordinator: who leases from it says what holds without it
""")
        done = self.run_weir("check", "--json", self.file, WEIR_URL=NOWHERE)
        costs = json.loads(done.stdout)["fleet"]
        self.assertEqual([(cost["policy"], cost["chunk"], cost["over"]) for cost in costs],
                         [("egress", 1000, 50000000), ("downloads", 100, 0), ("root", 10000, 0)])
        self.assertNotIn("secret", done.stdout)

    def test_a_fleet_that_cannot_work_is_a_mistake(self):
        self.assertEqual(self.mistakes(self.FLEET.replace("50M/m", "50M/s").replace("5M/m", "4/m")), [
            "w.yaml:4:12: policy 'egress': 50 000/s are more writes than the coordinator is good for, 1 000/s: let the "
            "nodes lease from a few weir servers (weir://), which then are the nodes; writes=N says what yours is good "
            "for",
            "w.yaml:10:12: policy 'root': 4 a minute for 5 nodes is less than one for each: chunks cannot share that "
            "out; let one server decide each key (a policy without fleet:, asked by all), or say fewer nodes"])
        self.assertEqual(self.mistakes(self.FLEET.replace("base: 100", "nodes: 30k")), [
            "w.yaml:7:12: policy 'downloads': a burst of 20 000 is less than a chunk of 1 for each of 30 000 nodes, so "
            "there would always be some that have none: use burst=30000 or more, fewer nodes, or let one server decide "
            "each key (a policy without fleet:, asked by all)"])
        self.write(self.FLEET.replace("50M/m", "50M/s").replace("/weir\"", "/weir?writes=60000\""))
        self.assertEqual(self.run_weir("check", self.file, WEIR_URL=NOWHERE).returncode, 0)

    def test_the_documented_file_is_right(self):
        text = (command.ROOT / "docs/config.md").read_text(encoding="utf-8")
        blocks = text.split("```yaml\n")[1:]
        self.assertGreater(len(blocks), 3)
        folder = pathlib.Path(self.file).parent
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=localhost", "-out", folder / "tls.pem", "-keyout", folder / "tls.key"], check=True,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (folder / "clients-ca.pem").write_bytes((folder / "tls.pem").read_bytes())
        for block in blocks:
            text = block.split("```")[0].replace("password_file: app.password", 'password: "x"')
            for name in "office.txt", "crawlers.txt":
                text = text.replace("@" + name, "192.0.2.0/24")
            self.write(text)
            done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
            self.assertEqual((done.returncode, done.stderr), (0, ""), block)

    def test_one_of_everything(self):
        self.write("memory: 1GiB\nusers: [{name: a, password: b, may: all}]\n"
                   "policies: [{name: a, limits: 5/m, overrides: [{key: k, limits: 6/m}]}]\n")
        done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
        self.assertEqual(done.stdout.splitlines()[0],
                         f"{self.file}: 1 policy, 1 override, 1 user; 1 GiB hold about 31 million keys of one limit each")

    def test_an_override_that_has_ended_is_noted(self):
        self.write("policies:\n- name: a\n  limits: 5/m\n  overrides:\n"
                   "  - {key: \"k*\", limits: 6/m, until: 2020-02-03T04:05:06Z}\n"
                   "  - {key: k, limits: 6/m, until: 2999-01-01}\n")
        done = self.run_weir("check", self.file, WEIR_URL=NOWHERE)
        self.assertEqual(done.stdout.splitlines()[1],
                         "note: line 5: the override of k* in a has ended, 2020-02-03T04:05Z")

    def test_mistakes_stand_where_they_are(self):
        self.assertEqual(self.mistakes("policies:\n"
                                       "  - name: api\n"
                                       "    limits: [100/s brust=200, 10k/h]\n"
                                       "  - name: search\n"
                                       "    limts: 5/s\n"
                                       "  - {name: api, limits: 5/s}\n"),
                         ["w.yaml:3:20: 100/s brust=200",
                          "                   ^ unknown option 'brust'; did you mean burst?",
                          "w.yaml:4:5: policy 'search' has no limits; write limits: 100/s",
                          "w.yaml:5:5: unknown key 'limts' in policy 'search'; did you mean limits?",
                          "w.yaml:6:5: policy 'api' is defined twice, first at line 2"])

    def test_a_caret_stands_under_its_place(self):
        for limits in ("100", "[5/s, 2m/s]", "'5/s brust=1'", '"5/s brust=1"', "[é]"):
            line, caret = self.mistakes(f"policies: [{{name: a, limits: {limits}}}]\n")
            column = int(line.split(":")[2])
            shown = line.split(": ", 1)[1]
            at = caret.index("^") - line.index(shown)
            source = f"policies: [{{name: a, limits: {limits}}}]"
            self.assertEqual(source[column - 1:column - 1 + len(shown) - at].rstrip("]}'\""), shown[at:])

    def test_a_file_that_is_not_there(self):
        self.check(["check", "/none/weir.yaml"], status=2,
                   err="/none/weir.yaml: cannot be read: No such file or directory\n")

    def test_the_command_line(self):
        self.check(["check"], status=2, err="weir check: which file? For example: weir check weir.yaml\n")
        self.check(["check", "a", "b"], status=2,
                   err="weir check: one file at a time, as in: weir check weir.yaml\n")
        self.assertIn("usage: weir check FILE", self.output("check", "--help"))

    def test_a_named_server_has_to_answer(self):
        self.write("")
        done = self.run_weir("check", self.file, "-s", NOWHERE)
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr.startswith("weir check: cannot connect to " + NOWHERE))
        with FakeServer(b"-NOPERM User default has no permissions\r\n") as url:
            done = self.run_weir("check", self.file, "-s", url)
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"weir check: {url}: NOPERM User default has no permissions\n"))

    def test_changes_against_a_server(self):
        self.write("policies:\n"
                   "- {name: api, limits: 100/s}\n"
                   "- {name: login, limits: 5/m, mode: shadow}\n"
                   "- {name: search, limits: 50/s, candidate: 30/s burst=60, mode: enforce 25%}\n"
                   "- {name: a-longer-name, limits: 2/s}\n"
                   "- {name: mode, limits: 2/s, mode: disabled}\n"
                   "- {name: part, limits: 2/s, mode: enforce 5%}\n"
                   "- {name: whole, limits: 2/s}\n"
                   "- {name: tried, limits: 2/s, candidate: 1/s}\n"
                   "- {name: try, limits: 2/s}\n"
                   "- {name: mine, limits: 2/s}\n")
        answer = b"*11\r\n" + b"".join([
            policy(b"api", b"100/s"), policy(b"search", b"50/s"), policy(b"a-longer-name", b"1/s"),
            policy(b"mode", b"2/s"), policy(b"part", b"2/s", b"shadow"), policy(b"whole", b"2/s", b"enforce", 5),
            policy(b"tried", b"2/s", candidate=b"5/s"), policy(b"try", b"2/s", candidate=b"5/s"),
            policy(b"mine", b"2/s", origin=b"command"),
            policy(b"gone", b"5/s"), policy(b"set-by-hand", b"5/s", origin=b"command")])
        with FakeServer(answer) as url:
            text = self.output("check", self.file, "-s", url)
            document = json.loads(self.output("check", "--json", self.file, WEIR_URL=url))
        self.assertEqual(text.splitlines()[1:], [
            f"changes against {url}",
            "  login         new, shadow",
            "  search        50/s stays; candidate 30/s burst=60 is new; enforced for 25 % of keys (was 100 %)",
            "  a-longer-name 2/s instead of 1/s",
            "  mode          2/s stays; mode disabled (was enforce)",
            "  part          2/s stays; enforced for 5 % of keys (was shadow)",
            "  whole         2/s stays; enforced for 100 % of keys (was 5 %)",
            "  tried         2/s stays; candidate 1/s instead of 5/s",
            "  try           2/s stays; candidate 5/s ends",
            "  mine          2/s stays; was set by command, now by the file",
            "  gone          removed"])
        self.assertEqual(document["server"], url)
        self.assertEqual(document["mistakes"], [])
        self.assertEqual(document["policies"], 10)
        self.assertEqual([(change["policy"], change["change"]) for change in document["changes"]][:2],
                         [("login", "new"), ("search", "changed")])
        self.assertEqual(document["changes"][-1], {"policy": "gone", "change": "removed", "text": "removed"})

    def notes(self, text):
        self.write(text)
        return json.loads(self.output("check", "--json", self.file, WEIR_URL=NOWHERE))["notes"]

    def test_what_serve_would_refuse(self):
        """Not the sockets: where it listens, and whether it needs a password, may stand in the command line."""
        one, = self.mistakes("memory: 900000GiB\n")
        self.assertRegex(one, r"^w\.yaml: a memory of 921600000 MiB is more than this machine has, which is \d+ MiB; ")
        one, = self.mistakes("policies:\n- {name: a, limits: 5/m, keys: 10G}\n")
        self.assertRegex(one, r"^w\.yaml:2:3: 10000000000 keys need ")
        one, = self.mistakes("policies:\n- {name: a, limits: 5/m, keys: 9M}\n")
        self.assertRegex(one, r"^w\.yaml: no memory left for these keys: .* the budget is 256 MiB; raise memory:")
        policies = "policies: [{name: a, limits: 5/m}]\n"
        exposed = ("{} can be reached from elsewhere and there is no password: weir serve needs --password-file FILE, or "
                   "--no-password")
        for address in ":9067", "0.0.0.0:1", "[::]:1", "192.0.2.1:1":
            self.assertEqual(self.notes(f'listen: {{resp: "{address}"}}\n{policies}'), [exposed.format(address)])
        for address in "127.0.0.1:1", "[::1]:1", "localhost:1":
            self.assertEqual(self.notes(f'listen: {{resp: "{address}"}}\n{policies}'), [])
        self.assertEqual(self.notes(f"listen: {{resp: none, http: none}}\n{policies}"),
                         ["nowhere to listen: weir serve needs --resp, --http or --unix, or sockets of systemd"])
        self.assertEqual(self.notes(f"listen: {{resp: none, unix: /tmp/s}}\n{policies}"), [])

    def test_who_may_what_afterwards(self):
        policies = "policies: [{name: a, limits: 5/m}]\n"
        told = "users afterwards (a server does not tell who they are now): "
        self.assertEqual(self.notes("users: [{name: default, may: all}]\n" + policies), [told + "default may do all"])
        self.assertEqual(self.notes("users: [{name: default, may: look}, {name: app, password: x, may: [look, take], "
                                    "policies: [a, nosuch]}]\n" + policies),
                         [told + "default may look; app may look, take",
                          "line 1: user 'app' may use policy 'nosuch', which the file does not name",
                          "NOBODY MAY RELOAD: no user has may: admin, so only SIGHUP or a restart could change this",
                          "who does not log in may neither take nor reload; callers and weir reload need a user and its "
                          "password in their URL"])
        notes = self.notes("users: [{name: ops, password: x, may: [look, admin]}]\n" + policies)
        self.assertEqual(notes[1:], ["NOBODY MAY TAKE: no user has may: take, so every caller would get an error",
                                     "who does not log in may do nothing; callers need a user and its password in their "
                                     "URL"])

    def test_a_file_that_would_take_all_away(self):
        self.assertEqual(self.notes(""), ["it names no policies; if that is meant, write policies: []"])
        self.assertEqual(self.notes("policies: []\n"), [])
        with FakeServer(b"*1\r\n" + policy(b"api", b"100/s")) as url:
            self.write("memory: 256MiB\n")
            done = self.run_weir("check", self.file, "-s", url)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", (
                f"{self.file}: it names no policies, and all that came from the file would go; if that is meant, write "
                "policies: []\n")))
            self.write("policies: []\n")
            self.assertEqual(self.output("check", self.file, "-s", url).splitlines()[-1], "  api      removed")
        with FakeServer(b"*1\r\n" + policy(b"api", b"100/s", origin=b"command")) as url:
            self.write("")
            self.assertEqual(self.run_weir("check", self.file, "-s", url).returncode, 0)

    def test_no_changes(self):
        self.write("policies: [{name: api, limits: 100/s}]\n")
        with FakeServer(b"*1\r\n" + policy(b"api", b"100/s")) as url:
            self.assertEqual(self.output("check", self.file, "-s", url).splitlines()[1], f"no changes against {url}")

    def test_a_user_who_may_not_see_all_policies(self):
        """Those are not called new: nobody can tell, and `removed` names none of them either."""
        text = ("users: [{{name: eve, password: e, may: look, policies: [api, fresh]}}, {{name: ops, password: o, may: all}}]\n"
                "policies:\n- {{name: api, limits: {}/s}}\n- {{name: secret, limits: 1/s}}\n- {{name: other, limits: 1/s}}\n")
        weir = server.Server(threads=1, config=text.format(1))
        self.addCleanup(weir.stop)
        self.write(text.format(2) + "- {name: fresh, limits: 1/s}\n")
        url = weir.url().replace("redis://", "redis://eve:e@")
        lines = self.output("check", self.file, "-s", url).splitlines()
        self.assertEqual(lines[2:5], ["  api      2/s instead of 1/s", "  fresh    new, enforce",
                                      "not compared, because this user may not see them: secret, other"])
        document = json.loads(self.output("check", "--json", self.file, "-s", url))
        self.assertEqual([change["policy"] for change in document["changes"]], ["api", "fresh"])
        self.assertEqual(document["not_visible"], ["secret", "other"])
        url = weir.url().replace("redis://", "redis://ops:o@")
        document = json.loads(self.output("check", "--json", self.file, "-s", url))
        self.assertEqual(document["not_visible"], [])

    def test_a_roots_bucket_is_compared_by_what_is_left_of_it(self):
        text = """\
policies:
  - name: b
    limits: 10k/s burst=5k
    fleet: {coordinator: "local:", hold: 100ms, base: 10}
"""
        weir = server.Server(threads=1, config=text)
        self.addCleanup(weir.stop)

        def changes(text):
            self.write(text)
            return json.loads(self.output("check", "--json", self.file, "-s", weir.url()))["changes"]
        self.assertEqual(changes(text), [])
        self.assertEqual([change["text"] for change in changes(text.replace("100ms", "200ms"))],
                         ["10k/s burst=3k instead of 10k/s burst=4k, the burst less hold"])
        self.assertEqual([change["text"] for change in changes(text.replace("limits:", "mode: shadow\n    limits:"))],
                         ["10k/s burst=5k stays; mode shadow (was enforce)"])

    def test_mistakes_as_json(self):
        self.write("threads: 0\n")
        done = self.run_weir("check", "--json", self.file, WEIR_URL=NOWHERE)
        self.assertEqual((done.returncode, done.stderr), (2, ""))
        self.assertEqual(json.loads(done.stdout), {"file": self.file, "mistakes": [
            {"line": 1, "column": 10, "message": "threads cannot be '0'; write a number from 1 to 64"}]})


if __name__ == "__main__":
    socket.setdefaulttimeout(10)
    command.main()
