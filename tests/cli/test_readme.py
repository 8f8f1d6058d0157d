# SPDX-License-Identifier: MIT
"""The documents do not lie: commands of README.md print what stands below them, programs compile, limits are
understood, links lead somewhere, and the man page knows every function. What asks a server is in
tests/server/test_documents.py."""

import re
import shlex
import subprocess
import unittest

from command import ROOT, CommandTest


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


README = read("README.md")
MAN = read("man/libweir.3")
NAMES, _, SAID_TO_REDIS = read("docs/coming-from.md").partition("\n## With a server\n")
DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/vectors/README.md"]
DOCUMENTS += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))
EXAMPLES = sorted(path for path in ROOT.glob("examples/*.c*"))
LINES_MAX = 80  # of an example


def sessions(text):
    """The indented `$ command` lines, each with the indented lines that follow it."""
    for block in re.findall(r"(?:^    .*\n)+", text, re.M):
        for part in re.split(r"^    \$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield command, re.sub(r"^    ", "", output, flags=re.M)


def blocks(text):
    return re.findall(r"^```c\n(.*?)^```", text, re.M | re.S)


def table_codes(text):
    """What stands in backticks in the second column of tables."""
    for row in re.findall(r"^\|.*\|$", text, re.M):
        yield from re.findall(r"`([^`]+)`", row.strip("|").partition(" | ")[2])


def displays(page):
    """The literal displays of a man page, as they are shown."""
    for display in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page, re.M | re.S):
        yield display.replace("\\e", "\\")


def anchor(heading):
    """As GitHub makes them."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class Document(CommandTest):
    def check_c(self, text):
        done = subprocess.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                               ROOT / "include", "-x", "c", "-"], input=text, capture_output=True, text=True)
        self.assertEqual(done.stderr, "")

    def check_limit(self, limit):
        with self.subTest(limit):
            self.output("spec", limit)


class Readme(Document):
    def test_commands(self):
        shown = [(c, o) for c, o in sessions(README) if re.match("weir (spec|sim) ", c)]
        self.assertGreater(len(shown), 1)
        for command, output in shown:
            with self.subTest(command):
                self.check(shlex.split(command)[1:], output)

    def test_program(self):
        example = read("examples/01-first-limit.c")
        self.assertEqual(blocks(README)[0], example[example.index("#include"):])
        output = [o for c, o in sessions(README) if c.startswith("cc ") and o]
        self.assertEqual(output, [read("examples/01-first-limit.out")])

    def test_calls(self):
        """The lines that show the verbs are C, with these variables."""
        self.assertEqual(len(blocks(README)), 3)
        self.check_c("#include <weir.h>\n"
                     "void f(struct weir_limiter *l, int64_t n, int64_t timeout_ns);\n"
                     "void f(struct weir_limiter *l, int64_t n, int64_t timeout_ns)\n{\n"
                     "struct weir_verdict v;\nstruct weir_reservation r;\nstruct weir_error err;\n"
                     + blocks(README)[1] + "}\n")
        self.check_c("#include <weir.h>\n"
                     "void f(const void *key, size_t len, int64_t n, struct weir_ask *asks, size_t count);\n"
                     "void f(const void *key, size_t len, int64_t n, struct weir_ask *asks, size_t count)\n{\n"
                     "struct weir_verdict v;\nstruct weir_error err;\nstruct weir_table *t;\n"
                     "struct weir_limit_state limits[3];\nstruct weir_top_key top[10];\nstruct weir_table_info info;\n"
                     + blocks(README)[2] + "}\n")

    def test_limits(self):
        table = README[README.index("| you want | write |"):].partition("\n\n")[0]
        limits = list(table_codes(table.partition("\n|---|---|\n")[2]))
        self.assertGreater(len(limits), 8)
        for limit in limits:
            self.check_limit(limit)

    def test_examples(self):
        """Each is shown, has its output and fits on a screen or two."""
        self.assertGreater(len(EXAMPLES), 10)
        for path in EXAMPLES:
            with self.subTest(path.name):
                self.assertIn(f"(examples/{path.name})", README)
                self.assertTrue(path.with_suffix(".out").is_file())
                self.assertLess(len(path.read_text().splitlines()), LINES_MAX)


class Documents(Document):
    def test_links(self):
        for name in DOCUMENTS:
            text = re.sub(r"^```.*?^```", "", read(name), flags=re.M | re.S)
            for link in re.findall(r"\]\(([^)\s]+)\)", text):
                if "://" in link:
                    continue
                file, _, section = link.partition("#")
                target = (ROOT / name).parent / file if file else ROOT / name
                with self.subTest(f"{name}: {link}"):
                    self.assertTrue(target.exists())
                    if section:
                        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.M)
                        self.assertIn(section, map(anchor, headings))

    def test_paths(self):
        """Scripts and examples are there under the names they are called by."""
        for name in DOCUMENTS:
            for path in re.findall(r"\b(?:script/[a-z-]+|examples/\d[\w-]+\.\w+)", read(name)):
                with self.subTest(f"{name}: {path}"):
                    self.assertTrue((ROOT / path).exists())


class ManPage(Document):
    def test_functions(self):
        """All that the library shows, and nothing else."""
        functions = set(read("tests/abi/symbols.txt").split())
        named = set(re.findall(r"^\.F[no] (weir_\w+)", MAN, re.M))
        self.assertEqual(functions - named, set())
        self.assertEqual(named - functions - {"weir_state_"}, set())

    def test_prototypes(self):
        """The synopsis says what the header says."""
        header = re.sub(r"\s+", " ", read("include/weir.h"))
        synopsis = MAN[MAN.index("\n.Sh SYNOPSIS"):MAN.index("\n.Sh DESCRIPTION")]
        synopsis = re.sub(r"\n\.Fa \"(.*)\"", r' "\1"', synopsis).replace(".Fo", ".Fn").replace("\n.Fc", "")
        shown = re.findall(r"^\.Ft (.*)\n\.Fn (\w+) (.*)$", synopsis, re.M)
        self.assertGreater(len(shown), 50)
        for result, name, parameters in shown:
            result = result.strip('"')
            blank = "" if result.endswith("*") else " "
            prototype = f"WEIR_API {result}{blank}{name}({', '.join(shlex.split(parameters))});"
            with self.subTest(name):
                self.assertIn(prototype, header)

    def test_program(self):
        programs = [text for text in displays(MAN) if "int main" in text]
        self.assertEqual(len(programs), 1)
        self.check_c(programs[0])


class NamesYouKnow(Document):
    def test_both_tables_agree(self):
        page = MAN[MAN.index("\n.Sh NAMES PEOPLE"):].replace("\\(dq", '"')
        codes = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\|.*\n", NAMES, re.M)))
        self.assertGreater(len(codes), 60)
        for code in codes:
            with self.subTest(code):
                self.assertIn(code, page)

    def test_limits(self):
        limits = [code for code in table_codes(NAMES + SAID_TO_REDIS)
                  if code[0].isdigit() or code in ("unlimited", "blocked")]
        self.assertGreater(len(limits), 20)
        for limit in limits:
            self.check_limit(limit)

    def test_functions(self):
        functions = set(read("tests/abi/symbols.txt").split())
        named = set(re.findall(r"\bweir_[a-z]+_\w+", NAMES))
        self.assertGreater(len(named), 8)
        self.assertEqual(named - functions, set())


if __name__ == "__main__":
    unittest.main()
