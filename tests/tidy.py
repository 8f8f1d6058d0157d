#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rules of the house that no compiler checks: layers, names, foreign headers, banned calls, form, one version.

usage: tidy.py [FOLDER]      every finding on a line; exit status 1 if there is one
       tidy.py --counts      how large src/ is, and how often each rule about names and places is broken
       tidy.py --self-test   breaks each rule in a temporary tree and expects a finding
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import csource  # noqa: E402: it is found by the line above

# What programs include.
HEADERS = ("weir.h", "weir-fleet.h")

# Libraries outside libc: each is included by one file only.
FOREIGN = ("uv.h", "zookeeper/", "yaml.h", "crypt.h", "nghttp2/", "protobuf-c/", "openssl/", "cjson/")

LIBC = set("""
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
dirent dlfcn fcntl fnmatch ftw getopt glob grp langinfo libgen malloc netdb poll pthread pwd regex sched semaphore spawn
strings syslog termios unistd endian byteswap alloca execinfo features immintrin x86intrin cpuid
""".split())
LIBC_FOLDERS = ("sys/", "netinet/", "arpa/", "net/", "linux/", "bits/", "asm/")
IMPURE = {"time", "unistd", "pthread", "threads", "stdatomic", "signal", "poll", "fcntl", "sched"}

BANNED = {
    "sprintf": "use snprintf", "vsprintf": "use vsnprintf", "strcpy": "use snprintf or memcpy",
    "strcat": "use snprintf", "gets": "use fgets", "atoi": "use strtol and look at the end",
    "atol": "use strtol and look at the end", "atof": "use strtod and look at the end",
    "strtok": "it keeps state", "rand": "use a seeded generator", "srand": "use a seeded generator",
    "alloca": "put a limit on it", "tmpnam": "use mkstemp",
}
CLOCKS = ("time", "clock", "clock_gettime", "gettimeofday", "timespec_get", "ftime", "__rdtsc", "__rdtscp")
SLEEPS = ("sleep", "usleep", "nanosleep", "clock_nanosleep")
CLOCK_FOLDERS = ("src/os/", "src/cli/", "bench/", "tests/fleet/wall.c")  # the last one is a clock
SLEEP_FOLDERS = ("src/os/", "bench/", "tests/late/")  # the last one makes threads late

# What breaks a rule about names and places today: tags that several files define, names of static functions that more
# than three files have, folders with too many files, headers that declare what another file defines. These lists only
# become shorter: what is listed in vain is a finding.
EXCEPTIONS = {
    "tag": """""",
    "static": """""",
    "library": """""",
    "folder": """""",
    "header": """
        src/fleet/zookeeper/pool.h
        src/lease/internal.h
        src/sim/fleet_world.h
    """,
}

# The folders of libweir, whose sources script/amalgamate puts into one file: a name is defined in one of them.
LIBRARY = tuple(f"src/{name}/" for name in ("base", "spec", "lease", "core", "os", "region", "limiter", "table",
                                            "store", "data", "registry"))
STATIC_FILES_MAX = 3  # that may have a static function of one name
FOLDER_MAX = 25  # .c files

MAP_LINES_MAX, GLOSSARY_MAX = 300, 20  # of ARCHITECTURE.md: lines, and words that the industry does not have
LINES_MAX = 800
HEADER_LINES_MAX = 1000  # of weir.h, which is the manual as well
SKIP_FOLDERS = {".git", "build", "__pycache__", "corpus"}
SOURCE_SUFFIXES = {".c", ".h", ".py", ".sh", ".cmake", ".map"}
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|work|Users)/\w")
TOKEN = csource.COMMENT_OR_STRING


def ask_git(root):
    """Tracked files and new ones; None where git is missing or does not know the tree."""
    if not (root / ".git").exists():  # a tarball, perhaps inside of somebody's repository
        return None
    try:
        done = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    if done.returncode:
        return None
    return [pathlib.PurePath(name) for name in done.stdout.decode().split("\0") if name]


def list_files(root):
    """As git has them; without it, all that are there, except in build folders."""
    paths = ask_git(root)
    if paths is None:
        builds = {path.parent for path in root.rglob("CMakeCache.txt")}
        paths = [path.relative_to(root) for path in root.rglob("*") if not builds & set(path.parents)]
    return sorted(path for path in paths if not SKIP_FOLDERS & set(path.parts) and (root / path).is_file())


def blank(match):
    """Strings and comments become empty, lines stay where they are."""
    text = match.group()
    return "\n" * text.count("\n") if text.startswith("/") else '""'


def check_form(path, text, say):
    if path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt" or text.startswith("#!"):
        if "SPDX-License-Identifier: MIT" not in "\n".join(text.splitlines()[:3]):
            say(1, "the first lines hold no SPDX-License-Identifier: MIT")
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "\t" in line and path.suffix != ".go":  # gofmt indents by them
            say(number, "a tab; use spaces")
        if line != line.rstrip():
            say(number, "blanks at the end of the line")
        if MACHINE_PATH.search(line):
            say(number, "a path of one machine")
    if text and not text.endswith("\n"):
        say(len(lines), "no newline at the end of the file")
    most = HEADER_LINES_MAX if path.name == "weir.h" else LINES_MAX
    if len(lines) > most and path.suffix in (".c", ".h", ".py"):
        say(len(lines), f"more than {most} lines: is it one job?")


def check_calls(path, text, say):
    for match in TOKEN.finditer(text):
        if match.group().startswith("//"):
            say(csource.line_of(text, match.start()), "a // comment; use /* */")
    code = TOKEN.sub(blank, text)
    for match in re.finditer(r"weir_error_(?:set|at|complain_as)\([^,;]*,\s*WEIR_\w+", code):
        say(csource.line_of(code, match.start()), "the code of an error is an errno value, not a reason of a verdict")
    may_read_clock = str(path).startswith(CLOCK_FOLDERS)
    for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code):
        name, fault = match.group(1), None
        if name in BANNED:
            fault = f"{name} is banned: {BANNED[name]}"
        elif name in CLOCKS and not may_read_clock:
            fault = f"{name} reads a clock; time is an argument"
        elif name in SLEEPS and not str(path).startswith(SLEEP_FOLDERS):
            fault = f"{name} lets real time pass"
        if fault:
            say(csource.line_of(code, match.start()), fault)


def check_include(path, line, name, quoted, layers, say):
    """Gives the foreign library that the line reaches, if any."""
    foreign = next((library for library in FOREIGN if name.startswith(library)), None)
    if foreign:
        return foreign
    stem = name.removesuffix(".h")
    if not quoted:
        if stem not in LIBC and not name.startswith(LIBC_FOLDERS) and name not in HEADERS:
            say(line, f"<{name}> is neither libc nor a library of this project")
        elif str(path).startswith(("src/core/", "src/spec/", "src/lease/")) and (stem in IMPURE or name.startswith("sys/")):
            say(line, f"<{name}>: core is pure")
        return None
    if path.parts[0] != "src" or name in HEADERS:
        return None
    folder, target = row_of("/".join(path.parts[1:-1]), layers), row_of(name.rpartition("/")[0], layers)
    if folder not in layers:
        pass  # check_layers says so
    elif target not in layers:
        say(line, f'"{name}": includes are written relative to src: "{folder}/{name}"')
    elif target != folder and target not in layers[folder]:
        say(line, f"{folder} must not know {target}")
    return None


def row_of(folder, layers):
    """A folder without a row of its own is a room of the one above it: its row counts."""
    while folder not in layers and "/" in folder:
        folder = folder.rpartition("/")[0]
    return folder


def read_layers(root, findings):
    """The table of ARCHITECTURE.md: {folder: what it may include}. A folder includes folders of rows above it."""
    file, layers = root / "ARCHITECTURE.md", {}
    text = file.read_text() if file.is_file() else ""
    for match in re.finditer(r"^\| `(src/[\w/]+|bench)` \|[^|\n]*\| ([^|\n]*) \|$", text, re.M):
        folder = match.group(1).removeprefix("src/")
        names = [name.strip(" `") for name in match.group(2).split(",")]
        where = f"ARCHITECTURE.md:{csource.line_of(text, match.start())}: the table of layers"
        if names == ["all"]:
            names = list(layers)
        elif names == ["libc"]:
            names = []
        findings += [f"{where}: {folder} may include {name}, which is not in a row above it"
                     for name in names if name not in layers]
        layers[folder] = {name for name in names if name in layers}
        if match.group(2) == "all":
            layers[folder].add("*")
    return layers


def check_layers(layers, sources, findings):
    """The table has a row for each folder, and names nothing that is not there."""
    used = collections.defaultdict(set)
    for path, text in sources.items():
        folder = row_of("/".join(path.parts[1:-1]), layers)
        used[folder] |= {row_of(m.group(1), layers)
                         for m in re.finditer(r'^[ ]*#[ ]*include[ ]*"([^"]+)/', text, re.M)}
        if folder not in layers:
            findings.append(f"{path}:1: src/{folder} is not in the table of layers of ARCHITECTURE.md")
    for folder, below in layers.items():
        if folder not in used and folder != "bench":
            findings.append(f"ARCHITECTURE.md:1: the table of layers has src/{folder}, which does not exist")
        elif "*" not in below:
            findings += [f"ARCHITECTURE.md:1: the table of layers says that {folder} may include {name}; it does not"
                         for name in sorted(below - used[folder])]


def read_glossary(root):
    """The words that the section Words of ARCHITECTURE.md defines: those in italics."""
    file = root / "ARCHITECTURE.md"
    words = re.search(r"^## Words\n(.*?)^## ", file.read_text(), re.M | re.S) if file.is_file() else None
    return set(re.findall(r"[*](\w[\w -]*)[*]", words.group(1))) if words else set()


def check_map(root, sources, names, findings):
    """ARCHITECTURE.md names files that exist, and what they hold: `word` in `file`; in pictures the functions."""
    file = root / "ARCHITECTURE.md"
    lines = file.read_text().splitlines() if file.is_file() else []
    if len(lines) > MAP_LINES_MAX:
        findings.append(f"ARCHITECTURE.md:1: {len(lines)} lines; a map has at most {MAP_LINES_MAX}: see docs/internals")
    if len(read_glossary(root)) > GLOSSARY_MAX:
        findings.append(f"ARCHITECTURE.md:1: more than {GLOSSARY_MAX} words of our own")
    for number, line in enumerate(lines, 1):
        def say(message, number=number):
            findings.append(f"ARCHITECTURE.md:{number}: {message}")

        picture = re.match(r" {4}([\w/]+\.[ch]) +(\w+(?: → \w+)*)", line)
        for path in [picture.group(1)] if picture else re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`", line):
            if not (root / path).exists() and not (root / "src" / path).exists():
                say(f"there is no {path}")
        for name in picture.group(2).split(" → ") if picture else ():
            homes = names.statics.get(name, {}) | names.functions.get(name, {})
            if pathlib.PurePath("src", picture.group(1)) not in homes:
                say(f"{picture.group(1)} defines no {name}; it is in {', '.join(map(str, homes)) or 'no file of src/'}")
        for name, path in re.findall(r"`(\w+)` (?:in|of) `(?:src/)?([\w/]+\.[ch])`", line):
            if not re.search(rf"\b{name}\b", sources.get(pathlib.PurePath("src", path), name)):
                say(f"there is no {name} in {path}")


def check_citations(root, text, say):
    """An invariant that a comment cites is on the page that it names."""
    for match in re.finditer(r"(docs/internals/[\w-]+\.md), (\d+b?)\b", text):
        page = root / match.group(1)
        if not page.is_file() or not re.search(rf"^[*][*]{match.group(2)}\. ", page.read_text(), re.M):
            say(csource.line_of(text, match.start()), f"{match.group(1)} has no invariant {match.group(2)}")
    for match in re.finditer(r"\bINVARIANT\(([1-9]\d*),", text):
        pages = sorted((root / "docs" / "internals").glob("*.md"))
        if not any(re.search(rf"^[*][*]{match.group(1)}\. ", page.read_text(), re.M) for page in pages):
            say(csource.line_of(text, match.start()), f"docs/internals has no invariant {match.group(1)}")


def check_files_named(text, known, say):
    """A comment that sends its reader to a file names one that is there."""
    for comment in TOKEN.finditer(text):
        if not comment.group().startswith("/"):
            continue
        for match in re.finditer(r"(?<![\w/.<-])(?:[\w-]+/)*[\w-]+\.[ch](?![\w.(])", comment.group()):
            if not any(f"/{path}".endswith(f"/{match.group()}") for path in known):
                say(csource.line_of(text, comment.start() + match.start()), f"there is no {match.group()}")


def variable_name(code):
    """Of a declaration of file scope, which may define its type and its value."""
    while re.search(r"\{[^{}]*\}", code):
        code = re.sub(r"\{[^{}]*\}", "", code)
    words = re.findall(r"\w+", re.split(r"[=\[;,]", code)[0])
    return words[-1] if words else ""


class Names:
    """Which files of src/ define a tag, a static function, a function; and what headers declare."""

    def __init__(self, sources):
        self.tags, self.statics, self.functions = ({}, {}, {})  # name -> {path: line}
        self.declared = []  # (header, line, name)
        self.library, self.macros, self.words = {}, {}, {}  # of the library's files; words: path -> set
        self.folders = collections.Counter(str(path.parent) for path in sources if path.suffix == ".c")
        for path, text in sources.items():
            for match in csource.TAG.finditer(csource.code_only(text)):
                self.note(self.tags, match.group(2), path, text, match.start())
            for item in csource.outline(text) or ():
                if item.kind == "function":
                    self.note(self.statics if item.static else self.functions, item.name, path, text, item.start)
                elif item.kind == "declaration" and path.suffix == ".h" and not item.static:
                    self.declared.append((path, csource.line_of(text, item.start), item.name))
            if f"{path}".startswith(LIBRARY):
                self.note_library(path, text)

    def note_library(self, path, text):
        """What shares one scope when all sources are one file: functions, variables, macros, constants of enums."""
        code = csource.code_only(text)
        for item in csource.outline(text) or ():
            if item.kind == "function" or item.kind == "macro" and not item.name.startswith("_"):  # _GNU_SOURCE
                self.note(self.library, item.name, path, text, item.start)
            elif item.kind == "variable" and not re.match(r"extern\b|_Static_assert|struct \w+;", code[item.start:item.end]):
                self.note(self.library, variable_name(code[item.start:item.end]), path, text, item.start)
            if item.kind == "macro" and path.suffix == ".c" and not item.name.startswith("_"):
                self.note(self.macros, item.name, path, text, item.start)
        for match in re.finditer(r"\benum\s*\w*\s*\{([^}]*)\}", code):
            for name in re.findall(r"(?:^|,)\s*(\w+)", match.group(1)):
                self.note(self.library, name, path, text, match.start())
        self.words[path] = set(re.findall(r"\w+", csource.COMMENT_OR_STRING.sub(" ", text)))

    @staticmethod
    def note(table, name, path, text, offset):
        table.setdefault(name, {}).setdefault(path, csource.line_of(text, offset))

    def breaches(self):
        """{rule: [(what an exception names, place, finding)]}"""
        found = {rule: [] for rule in ("tag", "static", "library", "folder", "header")}
        for name, places in self.tags.items():
            if len(places) > 1:
                first, (path, line) = next(iter(places)), list(places.items())[-1]
                found["tag"].append((name, f"{path}:{line}", f"the tag {name} is defined in {first}, too"))
        for name, places in self.statics.items():
            if len(places) > STATIC_FILES_MAX:
                path, line = list(places.items())[-1]
                found["static"].append((name, f"{path}:{line}", f"{len(places)} files have a static function {name}; "
                                        "say what it does to what"))
        for name, places in self.library.items():
            if len(places) > 1:
                first, (path, line) = next(iter(places)), list(places.items())[-1]
                found["library"].append((name, f"{path}:{line}", f"{name} is defined in {first}, too: in one file, as "
                                         "script/amalgamate writes the library, they would be one"))
        for name, places in self.macros.items():
            path, line = next(iter(places.items()))
            other = next((other for other, words in self.words.items() if name in words and other != path), None)
            if len(self.library[name]) == 1 and other:
                found["library"].append((name, f"{path}:{line}", f"the macro {name} would change {other} when "
                                         "script/amalgamate puts both into one file"))
        for folder, count in self.folders.items():
            if count > FOLDER_MAX:
                found["folder"].append((folder, f"{folder}:1",
                                        f"{count} .c files; at most {FOLDER_MAX} are in a folder"))
        for header, line, name in self.declared:
            homes = self.functions.get(name, {})
            if homes and header.with_suffix(".c") not in homes and header not in homes:
                found["header"].append((str(header), f"{header}:{line}", f"{name} is defined in "
                                        f"{next(iter(homes))}, not in {header.with_suffix('.c').name}"))
        return found


def check_names(names, exceptions, findings):
    for rule, breaches in names.breaches().items():
        excepted = set(exceptions.get(rule, "").split())
        findings += [f"{place}: {finding}" for name, place, finding in breaches if name not in excepted]
        findings += [f"tests/tidy.py:1: {name} is no exception to the rule '{rule}' any more; take it from the list"
                     for name in sorted(excepted - {name for name, _, _ in breaches})]


def without_assertions(text):
    """The text without the lines of assertions and of what is compiled for them alone."""
    text = re.sub(r"^#if WEIR_ASSERTIONS\n(?:(?!#if).*\n)*?(?:#else\n((?:.*\n)*?))?#endif.*\n",
                  lambda match: match.group(1) or "", text, flags=re.M)
    return re.sub(r"^[ \t]*(?:ASSERT|INVARIANT|ASSERT_ALWAYS)\((?:[^;]|\n)*?\);.*\n", "", text, flags=re.M)


def print_counts(root):
    """For a table of before and after."""
    sources = read_sources(root)
    breaches = Names(sources).breaches()
    folders = collections.defaultdict(lambda: [0, 0, 0, 0, 0])  # .c files, .h files, lines, without assertions, those
    for path, text in sources.items():
        for key in (str(path.parent), "src, all of it"):
            counts = folders[key]
            counts[path.suffix == ".h"] += 1
            counts[2] += text.count("\n")
            counts[3] += without_assertions(text).count("\n")
            counts[4] += len(re.findall(r"(?<!\w)(?:ASSERT|ASSERT_ALWAYS|INVARIANT)\(", csource.code_only(text)))
    print(f"{'folder':24} {'.c':>4} {'.h':>4} {'lines':>6} {'without':>7} {'asserts':>7}")
    for folder in sorted(folders, key=lambda name: (" " in name, name)):
        print("{:24} {:4} {:4} {:6} {:7} {:7}".format(folder, *folders[folder]))
    print(f"\n{len(read_glossary(root))} words in the glossary")
    print(f"{len(breaches['tag'])} tags of a struct, union or enum that two or more files define")
    print(f"{len(breaches['static'])} names of static functions that more than {STATIC_FILES_MAX} files use")
    print(f"{len(breaches['library'])} names that two files of the library define")
    print(f"{len(breaches['folder'])} folders with more than {FOLDER_MAX} .c files")
    print(f"{len(breaches['header'])} functions that the header of another file declares, "
          f"in {len({name for name, _, _ in breaches['header']})} headers")


def check_includers(includers, findings):
    for library, paths in sorted(includers.items()):
        for path in sorted(paths)[1:]:
            findings.append(f"{path}:1: {library} is included by {sorted(paths)[0]} already; one file per library")


def check_cycles(graph, findings):
    done, path = set(), []

    def visit(header):
        if header in path:
            findings.append(f"src/{header}:1: headers include each other: {' -> '.join(path + [header])}")
        elif header not in done:
            path.append(header)
            for next_header in graph.get(header, ()):
                visit(next_header)
            path.pop()
            done.add(header)

    for header in sorted(graph):
        visit(header)


def check_version(root, findings):
    """The version stands in CMakeLists.txt; the header and the changelog repeat it."""
    def find(name, pattern):
        file = root / name
        match = re.search(pattern, file.read_text(), re.M) if file.is_file() else None
        return ".".join(match.groups()) if match else None

    version = find("CMakeLists.txt", r"^project\(weir VERSION ([\d.]+)")
    numbers = r"VERSION_MAJOR +(\d+)\n.*VERSION_MINOR +(\d+)\n.*VERSION_PATCH +(\d+)"
    for name, pattern in (("include/weir.h", r'WEIR_VERSION +"([\d.]+)"'), ("include/weir.h", numbers),
                          ("CHANGELOG.md", r"^## \[?([\d.]+)")):
        if find(name, pattern) != version:
            findings.append(f"{name}:1: version {find(name, pattern)}, but CMakeLists.txt says {version}")


def read_sources(root):
    """{path: text} of src/"""
    return {path: (root / path).read_text(errors="replace") for path in list_files(root)
            if path.parts[0] == "src" and path.suffix in (".c", ".h") and len(path.parts) > 2}


def check_tree(root, exceptions):
    findings, includers, graph = [], {}, {}
    layers, files = read_layers(root, findings), list_files(root)
    known = [*map(str, files), "weir.c"]  # which script/amalgamate writes
    for path in files:
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            findings.append(f"{path}:1: not UTF-8")
            continue

        def say(line, message, path=path):
            findings.append(f"{path}:{line}: {message}")

        check_form(path, text, say)
        if path.suffix not in (".c", ".h"):
            continue
        check_calls(path, text, say)
        check_citations(root, text, say)
        if path.parts[0] != "tests":
            check_files_named(text, known, say)
        for match in re.finditer(r"^[ ]*#[ ]*include[ ]*([<\"])([^>\"]+)[>\"]", text, re.M):
            quoted, name = match.group(1) == '"', match.group(2)
            foreign = check_include(path, csource.line_of(text, match.start()), name, quoted, layers, say)
            if foreign:
                includers.setdefault(foreign, set()).add(str(path))
            if quoted and path.suffix == ".h" and path.parts[0] == "src":
                graph.setdefault("/".join(path.parts[1:]), []).append(name)
    check_includers(includers, findings)
    check_cycles(graph, findings)
    sources = read_sources(root)
    check_layers(layers, sources, findings)
    names = Names(sources)
    check_names(names, exceptions, findings)
    check_map(root, sources, names, findings)
    check_version(root, findings)
    return findings


# ---- self-test -------------------------------------------------------------------------------------

SPDX = "/* SPDX-License-Identifier: MIT */\n"
CLEAN = {
    "CMakeLists.txt": "# SPDX-License-Identifier: MIT\nproject(weir VERSION 1.2.3 LANGUAGES C)\n",
    "CHANGELOG.md": "# Changelog\n\n## [1.2.3] - unreleased\n",
    "ARCHITECTURE.md": "| folder | its job | may include |\n|---|---|---|\n| `src/base` | text | libc |\n"
                       "| `src/core` | limits | base |\n| `src/os` | clock | libc |\n"
                       "| `src/core/deep` | more | core |\n| `src/server` | loop | libc |\n| `src/cli` | it | all |\n",
    "include/weir.h": SPDX + "#define WEIR_VERSION_MAJOR 1\n#define WEIR_VERSION_MINOR 2\n"
                             '#define WEIR_VERSION_PATCH 3\n#define WEIR_VERSION "1.2.3"\n',
    "docs/internals/store.md": "**38. Of two records** the later one counts.\n",
    "src/base/text.h": SPDX + "#include <string.h>\n",
    "src/core/limit.c": SPDX + '#include "base/text.h"\n#include "weir.h"\n'
                               'static const char *a = "http://x // strcpy(1)";\n/* time(NULL) */\n',
    "src/core/deep/well.h": SPDX + "int weir_well(void);\n",
    "src/core/deep/well.c": SPDX + '#include "core/deep/well.h"\n#include "core/limit.h"\nint weir_well(void)\n{\n}\n',
    "src/cli/main.c": SPDX + '#include "core/deep/well.h"\n#include "server/loop.h"\n',
    "src/os/clock.c": SPDX + "#include <time.h>\nvoid read_clock(void) { clock_gettime(0, 0); }\n",
    "src/server/loop.c": SPDX + "#include <uv.h>\n",
}
BREAKS = [  # file, text that is added to it, part of the finding
    ("src/base/bad.c", SPDX + '#include "core/limit.h"\n', "base must not know core"),
    ("src/core/bad.c", SPDX + '#include "os/clock.h"\n', "core must not know os"),
    ("src/core/bad.c", SPDX + '#include "core/deep/well.h"\n', "core must not know core/deep"),
    ("src/core/deep/bad.c", SPDX + '#include "base/text.h"\n', "core/deep must not know base"),
    ("src/util/bad.c", SPDX + '#include "base/text.h"\n', "src/util is not in the table of layers"),
    ("src/core/deep/down/bad.c", SPDX + '#include "base/text.h"\n', "core/deep must not know base"),
    ("src/core/limit.c", SPDX, "says that core may include base; it does not"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"] + "| `src/gone` | nothing | base |\n",
     "src/gone, which does not exist"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"].replace("| limits | base |", "| limits | base, os |"),
     "core may include os, which is not in a row above it"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"] + "\n    core/deep/well.c weir_well → weir_hole  digs\n",
     "ARCHITECTURE.md:10: core/deep/well.c defines no weir_hole; it is in no file of src/"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"] + "\nSee `src/core/limit.c`, `core/gone.c` and `WEIR.X`.\n",
     "ARCHITECTURE.md:10: there is no core/gone.c"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"] + "\n`weir_well` in `core/deep/well.c`, `hole` in `src/os/clock.c`\n",
     "ARCHITECTURE.md:10: there is no hole in os/clock.c"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"] + "more\n" * 300, "308 lines; a map has at most 300"),
    ("ARCHITECTURE.md", CLEAN["ARCHITECTURE.md"] + "\n## Words\n\n" + "".join(f"*w{i}* " for i in range(21)).strip() +
     "\n\n## Next\n", "more than 20 words of our own"),
    ("src/core/bad.c", SPDX + "/* docs/internals/store.md, 38 and docs/internals/store.md, 3 */\n",
     "bad.c:2: docs/internals/store.md has no invariant 3"),
    ("src/core/bad.c", SPDX + "void f(void) { INVARIANT(38, 1); INVARIANT(4, 1); }\n", "docs/internals has no invariant 4"),
    ("src/core/bad.c", SPDX + "/* limit.c, core/limit.c\n * and gone.c */\nint x; /* limit.c */\n",
     "bad.c:3: there is no gone.c"),
    ("src/core/bad.h", SPDX + "struct pair {\n    int a;\n};\n", None),
    ("src/os/bad.c", SPDX + "struct pair {\n    int b;\n};\n", "the tag pair is defined in src/core/bad.h, too"),
    ("src/core/bad.c", SPDX + "enum kind { A };\nstruct box {\n    enum kind { B } kind;\n};\n", ""),
    ("src/core/bad.c", SPDX + "enum kind { A };\n", None),
    ("src/os/bad.c", SPDX + "struct box {\n    enum kind { B } kind;\n};\n", "the tag kind is defined"),
    *[(f"src/{name}.c", SPDX + "static int\nrun(void)\n{\n}\n", None) for name in ("base/bad", "server/bad", "cli/bad")],
    ("src/cli/run.c", SPDX, ""),
    *[(f"src/{name}.c", SPDX + "static int\nrun(void)\n{\n}\n", None) for name in ("base/bad", "server/bad", "cli/bad")],
    ("src/cli/run.c", SPDX + "static void run(int a) { }\n", "4 files have a static function run"),
    ("src/os/bad.c", SPDX + "static const struct { int a; } pair[] = {{1}};\n", None),
    ("src/core/bad.c", SPDX + "static int pair(void)\n{\n}\n", "pair is defined in src/core/bad.c, too"),
    ("src/os/bad.c", SPDX + "enum { FIRST, LAST = 4 };\n", None),
    ("src/core/bad.c", SPDX + "#define LAST 3\n", "LAST is defined in src/core/bad.c, too"),
    ("src/os/bad.c", SPDX + "static int depth;\n", None),
    ("src/cli/bad.c", SPDX + "static int depth;\n#define AREA 1\n", ""),
    ("src/os/bad.c", SPDX + "#define DEPTH 1 /* AREA */\n", None),
    ("src/core/bad.c", SPDX + "struct area {\n    int DEPTH;\n};\n", "the macro DEPTH would change src/core/bad.c"),
    *[(f"src/os/f{number}.c", SPDX, None) for number in range(FOLDER_MAX)],
    ("src/os/last.c", SPDX, "src/os:1: 27 .c files; at most 25"),
    ("src/os/bad.h", SPDX + "int weir_far(void);\nint weir_nowhere(void);\n", None),
    ("src/os/other.c", SPDX + "int\nweir_far(void)\n{\n}\n",
     "bad.h:2: weir_far is defined in src/os/other.c, not in bad.c"),
    ("src/core/bad.c", SPDX + '#include "limit.h"\n', "relative to src"),
    ("src/core/bad.c", SPDX + "#include <time.h>\n", "core is pure"),
    ("src/cli/bad.c", SPDX + "#include <uv.h>\n", "one file per library"),
    ("src/cli/bad.c", SPDX + "#include <glib.h>\n", "neither libc nor a library"),
    ("src/core/bad.h", SPDX + '#include "core/worse.h"\n', None),
    ("src/core/worse.h", SPDX + '#include "core/bad.h"\n', "include each other"),
    ("src/core/bad.c", "int x;\n", "no SPDX"),
    ("script/bad", "#!/bin/sh\n", "no SPDX"),
    ("src/core/bad.c", SPDX + "int x; // here\n", "a // comment"),
    ("src/core/bad.c", SPDX + "void f(char *a) { strcpy(a, a); }\n", "strcpy is banned"),
    ("tests/bad.c", SPDX + "int f(void) { return rand(); }\n", "rand is banned"),
    ("src/core/bad.c", SPDX + 'void f(void) { weir_error_set(e, WEIR_INVALID, "no"); }\n', "is an errno value"),
    ("src/core/bad.c", SPDX + "long f(void) { return time(0); }\n", "reads a clock"),
    ("src/server/bad.c", SPDX + "void f(void) { clock_gettime(0, 0); }\n", "reads a clock"),
    ("tests/bad.c", SPDX + "void f(void) { usleep(5); }\n", "lets real time pass"),
    ("src/core/bad.c", SPDX + "\tint x;\n", "a tab"),
    ("src/core/bad.c", SPDX + "int x; \n", "blanks at the end"),
    ("src/core/bad.c", SPDX + "int x;", "no newline"),
    ("src/core/bad.c", SPDX + "int x;\n" * 900, "more than 800 lines"),
    ("docs/bad.md", "see /ho" + "me/me/notes\n", "path of one machine"),
    ("CHANGELOG.md", "# Changelog\n\n## [1.2.4]\n", "CHANGELOG.md:1: version 1.2.4"),
    ("include/weir.h", SPDX + '#define WEIR_VERSION "1.2.3"\n', "weir.h:1: version None"),
]


def write_tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def check_without_git():
    """A tree that git should know is walked where there is no git, and where git does not know it."""
    found, path = [], os.environ["PATH"]
    for search in ("", path):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write_tree(root, CLEAN | {".git/HEAD": "", "out/CMakeCache.txt": "", "out/x.c": "int x;\n",
                                     "src/core/bad.c": "int x;\n"})
            os.environ["PATH"] = search
            findings = check_tree(root, {})
            os.environ["PATH"] = path
        if len(findings) != 1 or "src/core/bad.c:1: the first lines" not in findings[0]:
            found.append(f"without git, expected one finding, got {findings}")
    return found


def check_exceptions():
    """What is listed passes; what is listed in vain does not."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        pair = SPDX + "struct pair {\n};\n"
        write_tree(root, CLEAN | {"src/os/bad.c": pair, "src/os/far.c": pair})
        listed, stale = check_tree(root, {"tag": "pair"}), check_tree(root, {"tag": "pair trio", "folder": "src/os"})
    found = [f"an exception does not pass: {listed}"] if listed else []
    if len(stale) != 2 or "trio is no exception to the rule 'tag'" not in stale[0] or "src/os is no" not in stale[1]:
        found.append(f"expected two stale exceptions, got {stale}")
    return found


def self_test():
    faults, files = check_without_git() + check_exceptions(), dict(CLEAN)
    for name, text, part in [("CHANGELOG.md", CLEAN["CHANGELOG.md"], "")] + BREAKS:
        files[name] = text
        if part is None:  # one half of a fault; the next line has the other
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_tree(pathlib.Path(folder), files)
            findings = check_tree(pathlib.Path(folder), {})
        if part == "" and findings:
            faults.append(f"a clean tree has findings: {findings}")
        if part and (len(findings) != 1 or part not in findings[0]):
            faults.append(f"{name}: expected one finding with '{part}', got {findings}")
        files = dict(CLEAN)
    print("\n".join(faults) or f"{sum(bool(part) for _, _, part in BREAKS)} broken rules found")
    return 1 if faults else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:] == ["--counts"]:
        print_counts(pathlib.Path(__file__).resolve().parent.parent)
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    findings = check_tree(root.resolve(), EXCEPTIONS)
    print("\n".join(findings) or "tidy")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
