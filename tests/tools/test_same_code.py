#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""script/same-code on a small tree: names and places may change, constants, calls and variables may not."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import platform
import shutil
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "script" / "same-code"
LOADER = importlib.machinery.SourceFileLoader("same_code", str(SCRIPT))
MODULE = importlib.util.module_from_spec(importlib.util.spec_from_loader("same_code", LOADER))
LOADER.exec_module(MODULE)

FILES = {
    "src/a.c": """#include <stdio.h>
#include <stdlib.h>
struct deed { int n; long due; };
long pick(struct deed *deed, int way);
static int least(int a) { return a < 3 ? a : 3; }
static int most(int a) { return a > 900 ? a : 900; }
long used;
long lost;
static long (*const ways[])(struct deed *, int) = {pick, NULL};
__attribute__((noinline)) static long settle(struct deed *deed) { return deed->due * 77 + used++; }
long add(struct deed *deed)
{
    switch (deed->n) {
    case 0: return settle(deed);
    case 1: puts("one deed"); return least(deed->n);
    case 2: return most((int)deed->due);
    case 3: return ways[0](deed, __LINE__ > 0);
    case 4: return abs(deed->n);
    default: return labs(deed->due) + lost;
    }
}
""",
    "src/b.c": """struct deed { int n; long due; };
const char banner[] = "a banner\\n";
long add(struct deed *deed);
long pick(struct deed *deed, int way) { return way ? add(deed) + deed->n % 7 : banner[way]; }
""",
}


@unittest.skipUnless(platform.machine() == "x86_64" and shutil.which("cc"), "it reads x86-64 objects of cc")
class Trees(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        MODULE.ROOT = pathlib.Path(cls.folder.name)
        cls.trees = {}
        cls.real_commands = staticmethod(MODULE.list_commands)
        MODULE.read_revision = lambda name: {file: (text.encode(), 0o644) for file, text in cls.trees[name].items()}
        MODULE.list_commands = lambda tree, build: {
            str(path.relative_to(tree)): ["cc", "-O2", "-fPIC", "-c", str(path)] for path in tree.rglob("*.c")}

    @classmethod
    def tearDownClass(cls):
        MODULE.list_commands = cls.real_commands
        cls.folder.cleanup()

    def compare(self, after, *options):
        """Exit status and what is printed."""
        self.trees.update(before=FILES, after=after)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = MODULE.main([*options, "before", "after"])
        return status, out.getvalue()

    def change(self, *changes, files=FILES):
        files = dict(files)
        for old, new in changes:
            self.assertTrue(any(old in text for text in files.values()), old)
            files = {name: text.replace(old, new) for name, text in files.items()}
        return files

    def differs(self, part, *changes):
        for options in ((), ("--moves",)):
            with self.subTest(changes=changes, options=options):
                status, text = self.compare(self.change(*changes), "--strings", *options)
                self.assertEqual((status, part in text), (1, True), text)

    def test_names_lines_and_comments_do_not_count(self):
        after = self.change(("struct deed", "struct operation"), ("settle(", "commit_it("), ("pick", "choose"),
                            ("long used", "\n/* */ long spent"), ("used++", "spent++"))
        for options in ((), ("--moves",)):
            status, text = self.compare(after, *options)
            self.assertEqual(status, 0, text)
        self.assertIn("pick is choose", self.compare(after)[1])

    def test_a_constant_a_call_and_a_variable_count(self):
        self.differs("settle", ("* 77", "* 78"))
        self.differs("add", ("case 4: return abs(deed->n)", 'case 4: return atol("1")'))
        self.differs("pick", ("% 7", "% 5"))
        self.differs("settle", ("used++", "lost++"), ("+ lost", "+ used + lost"))

    def test_only_the_name_of_what_is_called_has_changed(self):
        status, text = self.compare(self.change(('puts("one', 'perror("one')))
        self.assertEqual((status, "led to puts, leads to perror" in text), (1, True), text)
        self.differs("add: le", ('puts("one', 'perror("one'))

    def test_two_names_must_not_change_places(self):
        status, text = self.compare(self.change(("used++", "lost++"), ("+ lost", "+ used")))
        self.assertEqual(status, 1, text)

    def test_a_literal_is_listed_apart(self):
        after = self.change(("one deed", "one task"), ("a banner", "a header"))
        for options in ((), ("--moves",)):
            status, text = self.compare(after, *options)
            self.assertEqual(status, 1, text)
            self.assertIn("the code is the same; literals differ", text)
            status, text = self.compare(after, "--strings", *options)
            self.assertEqual(status, 0, text)
            self.assertIn('- "one deed"\n    + "one task"', text)
            self.assertIn('- "a banner\\n"\n    + "a header\\n"', text)

    def test_a_file_that_was_renamed_is_found(self):
        after = {name.replace("src/b", "src/deep/c"): text for name, text in FILES.items()}
        status, text = self.compare(after)
        self.assertEqual(status, 0, text)
        self.assertIn("moved: src/b.c is src/deep/c.c", text)

    def test_a_function_that_has_moved_needs_an_option(self):
        settle = "__attribute__((noinline)) static long settle(struct deed *deed) { return deed->due * 77 + used++; }\n"
        after = self.change((settle, "long weir_settle(struct deed *deed);\n"), ("settle(deed);", "weir_settle(deed);"))
        after["src/c.c"] = ("struct deed { int n; long due; };\nextern long used;\n"
                            + settle.replace("static long ", "long weir_"))
        self.assertEqual(self.compare(after)[0], 1)
        status, text = self.compare(after, "--moves")
        self.assertEqual(status, 0, text)
        after["src/c.c"] = after["src/c.c"].replace("77", "79")
        self.assertEqual(self.compare(after, "--moves")[0], 1)

    def test_a_function_that_is_gone_or_new(self):
        for options in ((), ("--moves",)):
            self.assertEqual(self.compare({"src/a.c": FILES["src/a.c"]}, *options)[0], 1)
            more = FILES | {"src/c.c": "long more(long a) { return a * 12345; }\n"}
            self.assertEqual(self.compare(more, *options)[0], 1)

    @unittest.skipUnless(shutil.which("cmake") and shutil.which("ninja"), "it asks cmake what is compiled")
    def test_cmake_says_what_is_compiled(self):
        tree = pathlib.Path(self.folder.name) / "cmake"
        (tree / "src").mkdir(parents=True)
        (tree / "tests").mkdir()
        for name in ("src/a.c", "tests/t.c"):
            (tree / name).write_text(FILES["src/b.c"])
        (tree / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES C)\n"
                                             "add_library(x OBJECT src/a.c tests/t.c)\n")
        os.environ.pop("CMAKE_C_COMPILER_LAUNCHER", None)
        commands = self.real_commands(tree, tree / "build")
        self.assertEqual(list(commands), ["src/a.c"])
        self.assertIn("-O2", commands["src/a.c"])
        self.assertNotIn("-o", commands["src/a.c"])


if __name__ == "__main__":
    unittest.main()
