#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Rules of the house that no compiler checks: layers, foreign headers, banned calls, form, one version.

usage: tidy.py [FOLDER]      every finding on a line; exit status 1 if there is one
       tidy.py --self-test   breaks each rule in a temporary tree and expects a finding
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Folder of src -> what it builds on. An include may reach anything below.
LAYERS = {
    "base": (),
    "core": ("base",),
    "os": ("base",),
    "region": ("os",),
    "limiter": ("core", "os"),
    "table": ("core", "region"),
    "ledger": ("core", "region"),
    "store": ("region", "os"),
    "data": ("table", "store"),
    "registry": ("limiter", "table", "ledger"),
    "proto": ("base",),
    "fleet": ("core", "os", "limiter", "proto"),
    "service": ("registry", "store", "fleet"),
    "server": ("service", "proto"),
    "sim": ("core",),
    "cli": ("server", "sim"),
}

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

LINES_MAX = 800
HEADER_LINES_MAX = 1000  # of weir.h, which is the manual as well
SKIP_FOLDERS = {".git", "build", "__pycache__", "corpus"}
SOURCE_SUFFIXES = {".c", ".h", ".py", ".sh", ".cmake", ".map"}
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|work|Users)/\w")
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def layers_below(folder):
    below = {folder}
    for next_folder in LAYERS[folder]:
        below |= layers_below(next_folder)
    return below


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


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


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
            say(line_of(text, match.start()), "a // comment; use /* */")
    code = TOKEN.sub(blank, text)
    for match in re.finditer(r"weir_error_(?:set|at|complain_as)\([^,;]*,\s*WEIR_\w+", code):
        say(line_of(code, match.start()), "the code of an error is an errno value, not a reason of a verdict")
    may_read_clock = str(path).startswith(CLOCK_FOLDERS)
    for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code):
        name, line = match.group(1), line_of(code, match.start())
        if name in BANNED:
            say(line, f"{name} is banned: {BANNED[name]}")
        elif name in CLOCKS and not may_read_clock:
            say(line, f"{name} reads a clock; time is an argument")
        elif name in SLEEPS and not str(path).startswith(SLEEP_FOLDERS):
            say(line, f"{name} lets real time pass")


def check_include(path, line, name, quoted, say):
    """Gives the foreign library that the line reaches, if any."""
    foreign = next((library for library in FOREIGN if name.startswith(library)), None)
    if foreign:
        return foreign
    stem = name.removesuffix(".h")
    if not quoted:
        if stem not in LIBC and not name.startswith(LIBC_FOLDERS) and name not in HEADERS:
            say(line, f"<{name}> is neither libc nor a library of this project")
        elif path.parts[:2] == ("src", "core") and (stem in IMPURE or name.startswith("sys/")):
            say(line, f"<{name}>: core is pure")
        return None
    if path.parts[0] != "src" or name in HEADERS:
        return None
    folder, target = path.parts[1], name.split("/")[0]
    if folder not in LAYERS:
        say(line, f"src/{folder} is not in the table of layers")
    elif target == "bench" and folder == "cli":
        pass
    elif "/" not in name or target not in LAYERS:
        say(line, f'"{name}": includes are written relative to src: "{folder}/{name}"')
    elif target not in layers_below(folder):
        say(line, f"{folder} must not know {target}")
    return None


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


def check_tree(root):
    findings, includers, graph = [], {}, {}
    for path in list_files(root):
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
        for match in re.finditer(r"^[ ]*#[ ]*include[ ]*([<\"])([^>\"]+)[>\"]", text, re.M):
            quoted, name = match.group(1) == '"', match.group(2)
            foreign = check_include(path, line_of(text, match.start()), name, quoted, say)
            if foreign:
                includers.setdefault(foreign, set()).add(str(path))
            if quoted and path.suffix == ".h" and path.parts[0] == "src":
                graph.setdefault("/".join(path.parts[1:]), []).append(name)
    check_includers(includers, findings)
    check_cycles(graph, findings)
    check_version(root, findings)
    return findings


# ---- self-test -------------------------------------------------------------------------------------

SPDX = "/* SPDX-License-Identifier: MIT */\n"
CLEAN = {
    "CMakeLists.txt": "# SPDX-License-Identifier: MIT\nproject(weir VERSION 1.2.3 LANGUAGES C)\n",
    "CHANGELOG.md": "# Changelog\n\n## [1.2.3] - unreleased\n",
    "include/weir.h": SPDX + "#define WEIR_VERSION_MAJOR 1\n#define WEIR_VERSION_MINOR 2\n"
                             '#define WEIR_VERSION_PATCH 3\n#define WEIR_VERSION "1.2.3"\n',
    "src/base/text.h": SPDX + "#include <string.h>\n",
    "src/core/limit.c": SPDX + '#include "base/text.h"\n#include "weir.h"\n'
                               'static const char *a = "http://x // strcpy(1)";\n/* time(NULL) */\n',
    "src/os/clock.c": SPDX + "#include <time.h>\nvoid f(void) { clock_gettime(0, 0); }\n",
    "src/server/loop.c": SPDX + "#include <uv.h>\n",
}
BREAKS = [  # file, text that is added to it, part of the finding
    ("src/base/bad.c", SPDX + '#include "core/limit.h"\n', "base must not know core"),
    ("src/core/bad.c", SPDX + '#include "table/table.h"\n', "core must not know table"),
    ("src/store/bad.c", SPDX + '#include "core/limit.h"\n', "store must not know core"),
    ("src/proto/bad.c", SPDX + '#include "os/clock.h"\n', "proto must not know os"),
    ("src/sim/bad.c", SPDX + '#include "os/clock.h"\n', "sim must not know os"),
    ("src/util/bad.c", SPDX + '#include "base/text.h"\n', "not in the table of layers"),
    ("src/core/bad.c", SPDX + '#include "limit.h"\n', "relative to src"),
    ("src/core/bad.c", SPDX + "#include <time.h>\n", "core is pure"),
    ("src/fleet/bad.c", SPDX + "#include <uv.h>\n", "one file per library"),
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
    ("src/limiter/bad.c", SPDX + "void f(void) { clock_gettime(0, 0); }\n", "reads a clock"),
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
            findings = check_tree(root)
            os.environ["PATH"] = path
        if len(findings) != 1 or "src/core/bad.c:1: the first lines" not in findings[0]:
            found.append(f"without git, expected one finding, got {findings}")
    return found


def self_test():
    faults, files = check_without_git(), dict(CLEAN)
    for name, text, part in [("CHANGELOG.md", CLEAN["CHANGELOG.md"], "")] + BREAKS:
        files[name] = text
        if part is None:  # one half of a fault; the next line has the other
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_tree(pathlib.Path(folder), files)
            findings = check_tree(pathlib.Path(folder))
        if part == "" and findings:
            faults.append(f"a clean tree has findings: {findings}")
        if part and (len(findings) != 1 or part not in findings[0]):
            faults.append(f"{name}: expected one finding with '{part}', got {findings}")
        files = dict(CLEAN)
    print("\n".join(faults) or f"{sum(part is not None for _, _, part in BREAKS)} broken rules found")
    return 1 if faults else 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    findings = check_tree(root.resolve())
    print("\n".join(findings) or "tidy")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
