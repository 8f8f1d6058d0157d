#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""script/mutants: what a list may say, what survives an edit of the neighbours, and what its messages offer."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "script" / "mutants"
LOADER = importlib.machinery.SourceFileLoader("mutants", str(SCRIPT))
MODULE = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutants", LOADER))
LOADER.exec_module(MODULE)

CODE = """
enum { LEAST = 1, MOST = 9 };
static int due(int a); /* a declaration, not the place */
static int due(int a)
{
    if (a > MOST) /* a > LEAST */
        return a - 1;
    return a;
}

int
other(int a, int b)
{
    return a > MOST ? due(a) : b;
}
#define TWICE(x) \\
    ((x) * 2)
static const char *const names[] = {"one", "two, three"};
"""
HEAD = "id    a-name\ntest  unit-x\nwhy   because\n"


class Lists(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = MODULE.ROOT = pathlib.Path(folder.name)
        (self.root / "src").mkdir()
        self.write(CODE)

    def write(self, text, name="a.c"):
        (self.root / "src" / name).write_text(text)
        MODULE.source.cache_clear()
        MODULE.homes.cache_clear()
        MODULE.test_names.cache_clear()

    def parse(self, lines):
        path = self.root / "list.txt"
        path.write_text(HEAD + lines + "\n")
        return MODULE.parse_suite(path)

    def mutated(self, lines):
        mutants, faults = self.parse(lines)
        self.assertEqual(faults, [])
        return mutants[0].mutated()

    def fault(self, lines):
        faults = self.parse(lines)[1]
        self.assertEqual(len(faults), 1, faults)
        return faults[0]

    def test_a_fragment_is_changed_in_its_function_alone(self):
        self.assertEqual(self.mutated("in    src/a.c due\n-     a > MOST\n+     a >= MOST"),
                         {"src/a.c": CODE.replace("if (a > MOST)", "if (a >= MOST)")})

    def test_line_breaks_indentation_and_comments_do_not_matter(self):
        self.write(CODE.replace("(a > MOST)", "(a\n      > /* most */ MOST)"))
        text = self.mutated("in    src/a.c due\n-     if (a > MOST) return\n-     a - 1;\n+     ;")["src/a.c"]
        self.assertIn("{\n    ;\n    return a;\n}", text)

    def test_a_token_is_not_cut(self):
        self.write(CODE.replace("return a;", "return aa - 1;"))
        self.assertIn("return a - 2;", self.mutated("in    src/a.c due\n-     a - 1\n+     a - 2")["src/a.c"])
        self.assertIn("is not in due", self.fault("in    src/a.c due\n-     MOS\n+     LEAST"))

    def test_a_fragment_without_a_new_text_is_deleted(self):
        self.assertEqual(self.mutated("in    src/a.c other\n-     a > MOST ? due(a) :"),
                         {"src/a.c": CODE.replace("a > MOST ? due(a) :", "")})

    def test_several_places_in_several_functions(self):
        lines = ("in    src/a.c due\n-     return a;\n+\n-     a - 1\n+     a - 2\n"
                 "in    src/a.c other\n-     : b\n+     : a")
        self.assertEqual(self.mutated(lines), {"src/a.c": CODE.replace("return a;", "").replace("a - 1", "a - 2")
                                               .replace(": b", ": a")})

    def test_two_files(self):
        self.write("int far(void) { return 1; }\n", "b.c")
        both = self.mutated("in    src/a.c other\n-     : b\n+     : a\nin    src/b.c far\n-     1\n+     2")
        self.assertEqual(sorted(both), ["src/a.c", "src/b.c"])
        self.assertIn("return 2;", both["src/b.c"])

    def test_macros_variables_enums_and_whole_files(self):
        for place, old, new in (("TWICE", "* 2", "* 3"), ("names", "two", "too"), ("LEAST", "MOST = 9", "MOST = 8"),
                                ("", "LEAST = 1", "LEAST = 0")):
            self.assertIn(new, self.mutated(f"in    src/a.c {place}\n-     {old}\n+     {new}")["src/a.c"])

    def test_a_fragment_that_is_not_unique(self):
        self.assertIn("'return a' occurs 2 times in due of src/a.c, not once",
                      self.fault("in    src/a.c due\n-     return a\n+     return 0"))

    def test_a_fragment_that_is_gone_is_searched_for(self):
        fault = self.fault("in    src/a.c due\n-     a > MOST + 1\n+     a")
        self.assertIn("'a > MOST + 1' is not in due of src/a.c\n    near: if (a > MOST)", fault)
        self.assertIn("; it is in other", self.fault("in    src/a.c due\n-     due(a) : b\n+     b"))

    def test_a_function_that_was_renamed_or_has_moved_is_named(self):
        self.assertIn("src/a.c defines no others; did you mean other?",
                      self.fault("in    src/a.c others\n-     : b\n+     : a"))
        self.write("int far(void) { return 1; }\n", "b.c")
        self.assertIn("src/a.c defines no far; far is in src/b.c", self.fault("in    src/a.c far\n-     1\n+     2"))
        self.assertIn("there is no src/c.c; far is in src/b.c", self.fault("in    src/c.c far\n-     1\n+     2"))

    def test_lists_follow_a_function_that_has_moved(self):
        (self.root / "tests" / "mutants").mkdir(parents=True)
        path = self.root / "tests" / "mutants" / "list.txt"
        path.write_text(HEAD + "in    src/gone.c far\n-     1\n+     2\nin    src/a.c other\n-     : b\n+     : a\n")
        self.write("static int far(void) { return 1; }\n", "b.c")
        self.write("static int far(void) { return 3; }\n", "c.c")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(MODULE.follow_moves(), 0)
        self.assertEqual(out.getvalue(), "1 places followed\nlist.txt: 1 mutants\n")
        self.assertIn("in    src/b.c far\n", path.read_text())
        self.assertIn("in    src/a.c other\n", path.read_text())

    def test_a_test_that_was_renamed(self):
        (self.root / "tests").mkdir()
        (self.root / "tests" / "t.c").write_text("TEST(a_claim_that_holds)\n{\n}\n")
        (self.root / "tests" / "t.py").write_text("class Claims(unittest.TestCase):\n    def test_one(self):\n")
        for test, lost in (("unit-x a_claim", None), ("A=1 unit-x holds claims", "claims"), ("x -n 3", None),
                           ("x t.py Claims.test_one", None), ("x t.py Claims.test_two", "test_two")):
            path = self.root / "list.txt"
            path.write_text(HEAD.replace("unit-x", test) + "in    src/a.c due\n-     a - 1\n+     a\n")
            faults = MODULE.parse_suite(path)[1]
            self.assertEqual(faults, [f"list.txt:1: a-name: no test is called {lost}"] if lost else [])

    def test_blocks_that_say_too_little_or_too_much(self):
        self.assertIn("no 'in' line", self.fault(""))
        self.assertIn("no '-' line", self.fault("in    src/a.c due\n+     b"))
        self.assertIn("not '-'", self.parse("-     a\n+     b")[1][0])
        self.assertIn("replaced by itself", self.fault("in    src/a.c due\n-     a - 1\n+     a -1"))
        self.assertIn("overlap", self.fault("in    src/a.c due\n-     a - 1\n+     a\n-     - 1;\n+     ;"))


if __name__ == "__main__":
    unittest.main()
