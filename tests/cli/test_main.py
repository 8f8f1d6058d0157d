#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The weir command as a whole: help, version, unknown words, output that cannot be written, manuals."""

import json
import os
import pty
import re
import shutil
import subprocess
import tempfile
import unittest

import command

USAGE = """\
usage: weir COMMAND [OPTION]... [ARGUMENT]...
May this happen now?

Limits
  spec LIMITS...                 say in plain words what a limit lets pass
  sim LIMITS [--arrivals LIST]   watch it decide in virtual time
  sim fleet [--nodes N]          a whole fleet with faults in virtual time
Server
  serve [--config FILE]          answer Redis clients on 9049, HTTP on 9050
  check FILE                     is this configuration right, and what would it change
  reload                         apply the configuration, or keep the old one and say why
Ask a server
  take, peek POLICY KEY [N]      exit status 0 allowed, 1 refused, 2 error
  acquire POLICY KEY [N]         the same, but wait (--timeout TIME)
  reserve POLICY KEY [N]         take now, settle later (--ttl TIME, --timeout TIME)
  commit ID [N]..., cancel ID    what was used of a reservation; hand it back
  give, charge POLICY KEY [N]    hand units back; count what has happened already
  reset POLICY KEY               forget what a key has spent
  explain POLICY KEY             each limit of this key: used, left, when it frees
Operate
  top, stat                      who takes and is refused most; one line a second
  keys POLICY                    all keys that have spent something (--sort used)
  policy                         list, show, set, del, mode (--percent P, --for TIME, --all)
  override                       set, list, delete: another limit for one key, with an end
  quota                          totals of a fleet: create, show, list, set, watch, delete
Data
  backup [NAME]                  copy what a server has stored, while it serves
  dump [--policy NAME]           policies and what each key has spent, as text
  load [FILE] | --from URL       bring a dump in, or move keys from another server
  doctor DIR [--repair]          check what is stored; repair it only when told
Speed
  bench WHAT                     how fast here: core, fleet, limiter, server, store, table, wait

  -s, --server URL               redis://[user:password@]host:port or unix:///path
                                 (default redis://127.0.0.1:9049; WEIR_URL in the environment)
      --json                     one JSON document on standard output
  -h, --help  -V, --version      weir COMMAND --help tells more, with examples

Try   weir spec '100/s burst=20'
      weir serve, and in another terminal:
      redis-cli -p 9049 WEIR.POLICY SET api 100/s
"""
# Those that share a manual page with the first of them.
SHARED = [["take", "peek", "acquire", "give", "charge", "reset", "explain"], ["reserve", "commit", "cancel"]]
COMMANDS = ["spec", "sim", "serve", "check", "reload", *SHARED[0][:3], *SHARED[1], *SHARED[0][3:], "top", "stat", "keys", "policy",
            "override", "quota", "backup", "dump", "load", "doctor", "bench"]


def version():
    header = (command.ROOT / "include" / "weir.h").read_text()
    return re.search(r'#define WEIR_VERSION +"(.*)"', header).group(1)


class Help(command.CommandTest):
    def test_alone_it_explains_itself_and_fails(self):
        self.check([], "", USAGE, status=2)

    def test_help(self):
        for arguments in ["--help"], ["-h"], ["help"]:
            self.check(arguments, USAGE)

    def test_version(self):
        for option in "--version", "-V":
            self.check([option], f"weir {version()}\n")

    def test_commands_explain_themselves_in_one_way(self):
        for name in COMMANDS:
            out = self.output(name, "--help")
            self.assertTrue(out.startswith(f"usage: weir {name} "), out)
            self.assertRegex(out, "Examples?\n")
            self.assertEqual(self.output(name, "-h"), out)
            self.assertEqual(self.output("help", name), out)
            self.assertLessEqual(max(map(len, out.splitlines())), 88)

    def test_examples_of_the_help_work(self):
        for name in "spec", "sim":
            with tempfile.TemporaryDirectory() as folder:
                text = self.output(name, "--help")
                examples = text[text.index("Examples\n"):].splitlines()[1:]
                self.assertGreater(len(examples), 3)
                for example in examples:
                    line = re.sub(r" \| jq.*", "", example).replace("weir", f"'{command.WEIR}'", 1)
                    done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True,
                                          env=command.environment())
                    self.assertEqual((done.returncode, done.stderr), (0, ""), example)
                    self.assertTrue(done.stdout, example)

    def test_unknown_words(self):
        self.check(["spce", "5/m"], "", "weir: unknown command 'spce'; did you mean spec?\n", status=2)
        self.check(["hlep"], "", "weir: unknown command 'hlep'; did you mean help?\n", status=2)
        self.check(["throttle"], "", "weir: unknown command 'throttle'; weir --help lists them\n", status=2)
        self.check(["help", "smi"], "", "weir: unknown command 'smi'; did you mean sim?\n", status=2)
        for words, example in ((["--json", "spec", "5/m"], "weir spec --json ..."), (["-s", "x", "take"], "weir take -s ..."),
                               (["--quiet"], "weir take -s URL ..."), (["--A", "peek"], "weir peek --help ...")):
            self.check(words, "", f"weir: unknown option '{words[0]}'; options follow the command: {example}\n", status=2)


class Bench(command.CommandTest):
    def test_mistakes(self):
        for arguments, message in [
            ([], "measure what? For example: weir bench core"),
            (["foo"], "unknown word 'foo'; write core, fleet, limiter, server, store, table or wait"),
            (["core", "extra"], "unknown word 'extra'; write: weir bench core"),
            (["core", "--time", "5"], "--time '5': 5 what? write 5s, 5m, 5h or 5d"),
            (["core", "--time", "999us"], "--time takes 1ms to 1m, not '999us'"),
            (["core", "--time", "61s"], "--time takes 1ms to 1m, not '61s'"),
        ]:
            with self.subTest(arguments):
                self.check(["bench", *arguments], "", f"weir bench: {message}\n", status=2)

    def test_core(self):
        lines = self.output("bench", "core", "--time", "1ms").splitlines()
        self.assertIn("The goal of the design is at most 2.5x.", lines)
        self.assertIn("This take decides inline in one word around one CAS, as a shared limiter does.", lines)
        self.assertEqual(lines[-1], "weir_state_take pays for any policy: a table of functions, promises, all or none.")
        rows = [line for line in lines if re.fullmatch(r"  [a-z].*( +\d+\.\d\d){4}", line)]
        self.assertEqual(len(rows), 12)

    def test_json(self):
        document = json.loads(self.output("bench", "core", "--time", "1ms", "--json"))
        self.assertEqual((document["bench"], document["unit"], len(document["decisions"])), ("core", "ns", 12))
        self.assertAlmostEqual(document["token_bucket_cas64_ratio"],
                               document["token_bucket_cas64"] / document["cas64"], places=2)


class Output(command.CommandTest):
    def shell(self, line):
        return subprocess.run(line.replace("weir", f"'{command.WEIR}'", 1), shell=True, capture_output=True, text=True,
                              env=command.environment())

    def test_full_disk(self):
        for line in "weir spec 5/m", "weir --help", "weir sim 5/s --arrivals 0..9s/1ms", "weir spec --plot - 5/m":
            done = self.shell(line + " >/dev/full")
            self.assertEqual(done.returncode, 2, line)
            self.assertRegex(done.stderr, "^weir: cannot write to standard output(: No space left on device)?\n$")

    def test_closed_output(self):
        done = self.shell("weir spec 5/m >&-")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "weir: cannot write to standard output: Bad file descriptor\n"))

    def test_file_does_not_become_the_closed_output(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.svg")
            self.assertEqual(self.shell(f"weir spec --plot {path} 5/m >&-").returncode, 2)
            with open(path, encoding="utf-8") as file:
                self.assertTrue(file.read().endswith("</svg>\n"))

    def test_reader_that_leaves(self):
        done = self.shell("weir sim 5/s --arrivals 0..999s/1ms | head -n 1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Terminal(command.CommandTest):
    def on_terminal(self, *arguments, **settings):
        """What the command writes to a terminal."""
        reader, writer = pty.openpty()
        with subprocess.Popen([command.WEIR, *arguments], stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
                              env=command.environment(**settings)):
            os.close(writer)
            text = b""
            while True:
                try:
                    part = os.read(reader, 4096)
                except OSError:  # Linux: the other side is closed
                    part = b""
                if not part:
                    break
                text += part
        os.close(reader)
        return text.decode()

    def test_colours_only_where_they_are_wanted(self):
        arguments = "sim", "1/s", "--arrivals", "0,0"
        self.assertIn("\x1b[32mallowed\x1b[0m", self.on_terminal(*arguments, TERM="xterm"))
        self.assertIn("\x1b[31mrefused\x1b[0m", self.on_terminal(*arguments, TERM="xterm"))
        self.assertIn("\x1b[", self.on_terminal(*arguments, TERM="xterm", NO_COLOR=""))
        for settings in {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}, {}:
            self.assertNotIn("\x1b", self.on_terminal(*arguments, **settings))
        self.assertNotIn("\x1b", self.output(*arguments, TERM="xterm"))
        self.assertIn("\x1b[31m^\x1b[0m", self.on_terminal("spec", "100", TERM="xterm"))


class Manuals(command.CommandTest):
    def test_pages_and_help_name_the_same_options(self):
        for name in COMMANDS:
            page = (command.ROOT / "man" / f"weir-{name}.1").read_text()
            family = next((names for names in SHARED if name in names), [name])
            if name != family[0]:
                self.assertEqual(page, f".so man1/weir-{family[0]}.1\n")
                page = (command.ROOT / "man" / f"weir-{family[0]}.1").read_text()
            listed = set(re.findall(r"^\.It Fl -?([a-z]+)", page, re.M))
            helped = set(re.findall(r"^ +(?:-h, )?--?([a-z]+)", self.output(name, "--help"), re.M))
            listed = {"help" if option == "h" else option for option in listed}
            self.assertEqual(helped - listed if len(family) > 1 else listed ^ helped, set(), name)

    def test_commands_are_in_the_main_page(self):
        page = (command.ROOT / "man" / "weir.1").read_text()
        for name in COMMANDS:
            self.assertIn(f".It Xr weir-{name} 1\n", page)

    def test_examples_are_what_is_printed(self):
        for page in "weir.1", "weir-spec.1", "weir-sim.1":
            text = (command.ROOT / "man" / page).read_text()
            blocks = re.findall(r"^\.Bd -literal.*\n((?:.*\n)*?)\.Ed$", text, re.M)
            self.assertTrue(blocks, page)
            for block in blocks:
                if block.startswith("$ weir serve"):  # tests/server/test_documents.py
                    continue
                line, *printed = block.replace("\\e", "\\").splitlines()
                self.assertTrue(line.startswith("$ weir "), line)
                done = subprocess.run(line[2:].replace("weir", f"'{command.WEIR}'", 1), shell=True, text=True,
                                      capture_output=True, env=command.environment(COLUMNS="72"))
                self.assertEqual((done.stdout + done.stderr).splitlines(), printed, line)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not here")
    def test_pages_are_well_formed(self):
        for page in (command.ROOT / "man").glob("*.1"):
            if page.read_text().startswith(".so "):
                continue
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""))


class Completion(command.CommandTest):
    FILE = command.ROOT / "dist" / "completions" / "weir.bash"

    def complete(self, *words):
        """The words that bash would offer for the last one."""
        script = (f"source '{self.FILE}'; COMP_WORDS=({' '.join(words)} \"$LAST\"); COMP_CWORD={len(words)}; "
                  "_weir; printf '%s\\n' \"${COMPREPLY[@]}\"")
        return lambda last: subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True,
                                           env=command.environment(LAST=last)).stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "bash is not here")
    def test_commands_and_options(self):
        self.assertEqual(self.complete("weir")("s"), ["spec", "sim", "serve", "stat"])
        self.assertEqual(self.complete("weir", "help")(""), COMMANDS)
        for name in COMMANDS:
            helped = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", self.output(name, "--help"), re.M))
            tls = {"--cacert", "--cert", "--key", "--insecure"} if "--server" in helped else set()  # weir(1) has them
            self.assertEqual(set(self.complete("weir", name)("--")), helped | tls, name)

    @unittest.skipUnless(shutil.which("bash"), "bash is not here")
    def test_what_may_follow(self):
        self.assertEqual(self.complete("weir", "policy")(""), ["list", "show", "set", "del", "mode", "candidate"])
        self.assertEqual(self.complete("weir", "policy", "mode", "login")(""), ["enforce", "shadow", "disabled"])
        self.assertEqual(self.complete("weir", "policy", "mode", "--all")("s"), ["shadow"])
        self.assertEqual(self.complete("weir", "policy", "mode", "login", "enforce")("--p"), ["--percent"])
        self.assertEqual(self.complete("weir", "override", "set", "api", "k", "5/m")("--r"), ["--reason"])
        self.assertEqual(self.complete("weir", "quota")("s"), ["show", "set"])
        self.assertEqual(self.complete("weir", "quota", "create", "egress", "5M/m")("--n"), ["--nodes"])
        self.assertEqual(self.complete("weir", "serve", "--log-level")(""), ["debug", "info", "warn", "error"])
        self.assertEqual(self.complete("weir", "serve", "--log-format")("j"), ["json"])


if __name__ == "__main__":
    command.main()
