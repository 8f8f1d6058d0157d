# SPDX-License-Identifier: MIT
"""What a C file defines at file scope, and where. For tests/tidy.py and script/mutants.

It reads the project's own style, without a preprocessor: both branches of an #if count, and a macro that hides a brace
is not seen through.
"""

import bisect
import dataclasses
import re

COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r"^[ ]*#(?:\\\n|[^\n])*", re.M)
DEFINE = re.compile(r"\s*#\s*define\s+(\w+)")
TAG = re.compile(r"\b(struct|union|enum)\s+(\w+)\s*\{")
TOKEN = re.compile(r"\w+|->|\.\.\.|<<=|>>=|<<|>>|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|\S")
NOT_A_NAME = {"__attribute__", "__asm__", "_Alignas", "_Static_assert", "sizeof", "__typeof__"}


@dataclasses.dataclass
class Item:
    """`kind`: function, declaration (of a function), variable, type, macro. It covers text[start:end]."""
    kind: str
    name: str
    start: int
    end: int
    static: bool = False


def spaces(match):
    return re.sub(r"[^\n]", " ", match.group())


def without_comments(text):
    """The same length: comments become spaces, strings stay."""
    return COMMENT_OR_STRING.sub(lambda m: spaces(m) if m.group().startswith("/") else m.group(), text)


def code_only(text):
    """The same length: comments and directives become spaces, strings become empty ones with spaces behind."""
    def hide(match):
        found = match.group()
        return spaces(match) if found.startswith("/") else '""' + " " * (len(found) - 2)

    return DIRECTIVE.sub(spaces, COMMENT_OR_STRING.sub(hide, text))


def tokens(text):
    """[(token, start, end)]; comments are gone, words in strings are tokens like others."""
    return [(m.group(), m.start(), m.end()) for m in TOKEN.finditer(without_comments(text))]


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def groups(head):
    """[(name in front, start, end)] of the outermost parentheses of a declaration."""
    found, depth, start = [], 0, 0
    for at, mark in enumerate(head):
        if mark == "(":
            if depth == 0:
                start = at
            depth += 1
        elif mark == ")":
            depth -= 1
            if depth == 0:
                name = re.search(r"(\w+)\s*$", head[:start])
                found.append((name.group(1) if name else "", start, at + 1))
    return found


def function_name(head):
    """Of a declaration without its body: the name in front of the parameters; None if it is no function's."""
    named = [name for name, start, _ in groups(head) if name and name not in NOT_A_NAME]
    return named[-1] if named else None


def describe(head, body, start, end):
    """The item that a declaration of file scope is. `head` ends at its first brace, or holds all of it."""
    static = bool(re.search(r"\bstatic\b", head))
    plain = head
    for _, left, right in reversed(groups(head)):
        plain = plain[:left] + " " * (right - left) + plain[right:]
    before = re.split(r"[=\[;]", plain)[0]
    if body and "=" not in plain and re.search(r"\)\s*$", head):
        return Item("function", function_name(head) or "", start, end, static)
    tag = re.match(r"\s*(?:typedef\s+)?(?:struct|union|enum)\s*(\w*)\s*$", head) if body else None
    if tag:
        return Item("type", tag.group(1), start, end)
    if head.lstrip().startswith("typedef"):
        words = re.findall(r"\w+", plain)
        return Item("type", words[-1] if words else "", start, end)
    if not body and "=" not in plain and "(" in head:
        name = function_name(head)
        words = re.findall(r"\w+", before)
        if name and len(words) > 1:
            return Item("declaration", name, start, end, static)
        return Item("variable", "", start, end, static)
    words = re.findall(r"\w+", before)
    return Item("variable", words[-1] if words else "", start, end, static)


def outline(text):
    """Every item of file scope, in the order of the file. None: its braces do not match."""
    code = code_only(text)
    items = []
    for match in DIRECTIVE.finditer(without_comments(text)):
        define = DEFINE.match(match.group())
        if define:
            items.append(Item("macro", define.group(1), match.start(), match.end()))
    braces = parens = 0
    start = body = None  # of the declaration that is being read; of its first brace
    for match in re.finditer(r"[(){};]|[^\s(){};]+", code):
        at, mark = match.start(), match.group()
        if start is None:
            if mark in ";}":  # the end of extern "C"
                continue
            start, body = at, None
        if mark in "()":
            parens += 1 if mark == "(" else -1
        elif mark == "{":
            if braces == 0 and parens == 0 and body is None:
                if re.fullmatch(r'extern\s+""\s*', code[start:at]):
                    start = None
                    continue
                body = at
            braces += 1
        elif mark == "}":
            braces -= 1
        ends = mark == ";" and braces == 0 and parens == 0
        if mark == "}" and braces == 0 and parens == 0 and body is not None:
            ends = describe(code[start:body], True, start, at + 1).kind == "function"
        if ends:
            head = code[start:body] if body is not None else code[start:at]
            item = describe(head, body is not None, start, at + 1)
            if not item.name and item.kind == "type":  # typedef struct {…} NAME; enum { FIRST, …
                words = re.findall(r"\w+", code[start:at] if head.startswith("typedef") else code[body:at])
                item.name = words[-1 if head.startswith("typedef") else 0] if words else ""
            items.append(item)
            start = None
    if braces or parens:
        return None
    return sorted(items, key=lambda item: item.start)


class Source:
    """A file's text, its tokens and what it defines."""

    def __init__(self, text):
        self.text = text
        self.items = outline(text) or []
        self.tokens = tokens(text)
        self.starts = [start for _, start, _ in self.tokens]

    def defines(self, name):
        """The items of that name: definitions, or, if there are none, declarations."""
        found = [item for item in self.items if item.name == name]
        return [item for item in found if item.kind != "declaration"] or found

    def between(self, start, end):
        """The tokens of text[start:end]."""
        return self.tokens[bisect.bisect_left(self.starts, start):bisect.bisect_left(self.starts, end)]

    def find(self, fragment, spans):
        """[(start, end)] of the places within the spans where the fragment's tokens follow each other."""
        wanted = [token for token, _, _ in tokens(fragment)]
        found = []
        for start, end in spans:
            have = self.between(start, end)
            for i in range(len(have) - len(wanted) + 1 if wanted else 0):
                if have[i][0] == wanted[0] and [token for token, _, _ in have[i:i + len(wanted)]] == wanted:
                    found.append((have[i][1], have[i + len(wanted) - 1][2]))
        return found
