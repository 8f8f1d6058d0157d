#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library as two files, as script/amalgamate writes it: compiles alone, shows what it should, and works.

usage: amalgam.py
"""

import concurrent.futures
import importlib.machinery
import importlib.util
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import abi
import install

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRIPT = ROOT / "script" / "amalgamate"
WARNINGS = """-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wundef -Wcast-qual -Wwrite-strings -Wformat=2 -Werror""".split()
FUSED = re.compile(r"\t(?:vf|f)n?m(?:add|sub)\w*")
FUSE = ["-mfma"] if platform.machine() == "x86_64" else []  # aarch64 can by nature


def load_script():
    sys.dont_write_bytecode = True  # script/ holds scripts only
    loader = importlib.machinery.SourceFileLoader("amalgamate", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("amalgamate", loader))
    loader.exec_module(module)
    return module


def say(*command):
    """What a command has to complain about: nothing, if all is well."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        return [f"{command[0]}: {error.strerror}"]
    if done.returncode == 0 and not done.stdout:
        return []
    return [f"{' '.join(map(str, command))}\n{done.stdout}(exit status {done.returncode})"]


# ---- the files -------------------------------------------------------------------------------------


def fuses(compiler, source, target, *flags):
    """Compiles as GNU C, which may fuse a multiply and an add; gives whether it did, and what went wrong."""
    faults = say(compiler, "-std=gnu17", "-O2", *FUSE, *WARNINGS, *flags, "-c", source, "-o", target)
    return not faults and bool(FUSED.search(abi.output("objdump", "-d", target))), faults


def check_compiler(folder, compiler):
    """weir.c with every warning, in two dialects; and it must fuse nothing, or its results would depend on the
    machine."""
    if not shutil.which(compiler):
        print(f"no {compiler} here: weir.c not tried with it")
        return []
    probe = folder / f"probe-{compiler}.c"
    probe.write_text("double f(double, double, double);\n"
                     "double f(double a, double b, double c)\n{\n    return a * b + c;\n}\n")
    would, faults = fuses(compiler, probe, folder / f"probe-{compiler}.o")
    if not would and not faults:
        faults = [f"{compiler} does not fuse a * b + c: nothing can be seen of weir.c"]
    does, wrong = fuses(compiler, folder / "weir.c", folder / f"fused-{compiler}.o")
    if does:
        wrong = [f"{compiler} -std=gnu17 {' '.join(FUSE)}: weir.c fuses a multiply and an add"]
    return faults + wrong + say(compiler, "-std=c17", *WARNINGS, "-fsyntax-only", folder / "weir.c")


def check_inside(folder):
    """-DWEIR_API= keeps weir.c inside of a shared library of somebody else."""
    (folder / "plug.c").write_text('#include "weir.h"\n'
                                   "long plug(void);\nlong plug(void)\n{\n    return (long)weir_now();\n}\n")
    shared = folder / "plug.so"
    faults = say("cc", "-DWEIR_API=", "-shared", "-fPIC", "-Wl,-z,defs", folder / "plug.c", folder / "weir.c",
                 "-o", shared)
    return faults or abi.compare("weir.c with -DWEIR_API=", abi.exported(shared), ["plug"])


def check_symbols(folder):
    """Nothing but the public functions is to be seen from outside, and libc is enough."""
    want = (HERE / "symbols.txt").read_text().split()
    shared = folder / "libweir.so"
    faults = say("cc", "-shared", "-Wl,-z,defs", folder / "weir.o", "-o", shared)
    if faults:
        return faults
    faults = abi.compare("weir.c as a shared library", abi.exported(shared), want)
    faults += [f"weir.c needs {name}; libc has to be enough" for name in install.dynamic(shared, "NEEDED")
               if not install.is_libc(name)]
    for line in abi.output("readelf", "-sW", folder / "weir.o").splitlines():
        words = line.split()  # number, value, size, type, binding, visibility, section, name
        if len(words) != 8 or words[4] not in ("GLOBAL", "WEAK") or words[6] == "UND":
            continue
        if words[5] == "DEFAULT" and words[7] not in want:
            faults.append(f"weir.o: {words[7]} is visible")
        if not words[7].startswith("weir_"):
            faults.append(f"weir.o: {words[7]} does not start with weir_")
    return faults


def check_header(folder):
    faults = []
    if (folder / "weir.h").read_text() != abi.HEADER.read_text():
        faults.append("weir.h is not include/weir.h")
    for language, std in (("c", "c17"), ("c++", "c++17")):
        compiler = "cc" if language == "c" else "c++"
        faults += say(compiler, "-x", language, f"-std={std}", "-Wall", "-Wextra", "-pedantic", "-Werror",
                      "-fsyntax-only", folder / "weir.h")
    return faults


# ---- programs --------------------------------------------------------------------------------------


def check_program(folder, source, flags=()):
    """Compiles and links a program; gives its path, or None, and what went wrong."""
    compiler = ["c++", "-std=c++17"] if source.suffix == ".cpp" else ["cc"]
    program = folder / source.stem
    faults = say(*compiler, "-pthread", f"-I{folder}", *flags, source, folder / "weir.o", "-o", program)
    return (None if faults else program), faults


def examples():
    """Those that need libweir alone."""
    every = sorted([*(ROOT / "examples").glob("*.c"), *(ROOT / "examples").glob("*.cpp")])
    return [example for example in every if "weir-fleet.h" not in example.read_text()]


def vectors():
    return sorted((ROOT / "tests" / "vectors").glob("test_*.c"))


def check_example(folder, source):
    program, faults = check_program(folder, source)
    return faults or say(ROOT / "tests" / "expect", source.with_suffix(".out"), program)


def check_vector(folder, source):
    """The documented behaviour of the algorithms, decided by weir.c."""
    program, faults = check_program(folder, source, [f"-I{ROOT / 'tests'}", f"-I{ROOT / 'src'}"])
    if faults:
        return faults
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [f"{source.name}: {done.stdout}"] if done.returncode else []


def check_cpp(folder):
    (folder / "plain.cpp").write_text(install.CPP)
    program, faults = check_program(folder, folder / "plain.cpp", install.CPP_FLAGS)
    if program and (got := abi.output(program)) != install.CPP_PRINTS:
        faults = [f"the C++ program prints {got!r}, not {install.CPP_PRINTS!r}"]
    return faults


# ---- the script itself -----------------------------------------------------------------------------

# A library with two sources that use the same names for everything, in every place where a name can stand.
# Compiled apart and as one file it has to do the same.
TWIN = r"""/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
FACTOR_LINE

#include <stddef.h>
#include <string.h>
#if defined(__linux__)
#include <unistd.h>
#endif
#include "base/shared.h"
#ifdef __cplusplus
extern "C" {
#endif

#define SIZE FACTOR /* it's no code: { ' " due */
#define AT(member) offsetof(struct store, member)
#define VIA(field) AT(field)
#define TEXT(name) #name
#define TEXTS(...) #__VA_ARGS__
#define JOIN(a, b) a##b
#define GET(object, words) ((object)->words)
#define SUM(...) sum_of(JOIN(shared_, half)(8), __VA_ARGS__)
#define inner deep.words
#define call(x) (x)
#if FACTOR > 3
#define PICK(store) (store)->due
#else
#define PICK(store) ((store)->words - (store)->words + (store)->due)
#endif
#ifdef SIZE
#define LOCAL (SIZE + 1)
#endif

enum { IDLE = FACTOR, BUSY = IDLE * 2, WORDS };
enum mode { ON = WORDS, OFF };
typedef int number;
typedef number (*step)(number);
typedef struct __attribute__((aligned(SIZE > 0 ? 16 : 8))) pair {
    number first, second : 9;
    struct { number words; } deep;
    enum inside { INSIDE = FACTOR + 9 } call;
} couple;
struct store {
    number words, due;
    number room[WORDS];
    step hook;
    number (*run)(number words), (*const other)(number);
    struct pair *(*find)(struct store *store);
    union { number count; char bytes[sizeof(couple)]; };
};

static number due(number n);
static number words(number n) __attribute__((cold, unused, aligned(SIZE > 0 ? 16 : 8)));
static number half(number n) __attribute__((unused));
static step (*choose)(int) = NULL;
static number (*const table[])(number) = {due, words, [2] = due};
static const char *const names[] = {"due", TEXT(due), TEXTS(due, WORDS), "\"due"};
static const char quote = '"', marks[] = {'"', IDLE, '"'}, tick = '\'';
static number count = FACTOR, limit, *last = &limit;
static size_t (*const measure)(const char *) = strlen;
static __thread number thread_count;
static _Alignas(64) unsigned char line[64];

static number due(number n)
{
    return n * FACTOR;
}

static __attribute__((cold)) number cold(number half)
{
    return JOIN(shared_, half)(half);
}

static number words(number n)
{
    return n + WORDS;
}

static number half(number n)
{
    return n / 2;
}

static step pick(int which)
{
    return table[which];
}

static number (*picked(int which))(number)
{
    return pick(which);
}

static number sum_of(number a, number b, number c)
{
    return a * 100 + b * 10 + c;
}

static struct pair *find(struct store *store)
{
    static struct pair pair;
    pair = (struct pair){.first = store->due, .deep = {.words = store->words}, .call = INSIDE};
    return &pair;
}

/* One branch opens what both share, as in " { ( ' */
static number branches(number n)
{
#if FACTOR > 3
    if (n > 3) {
#else
    if (n > 2) {
#endif
        goto words;
    }
    static number shared_half = 1;
    return n + shared_half++;
words:
    return words(n) + call(n);
}

static number shadows(number due)
{
    struct store { number due; } store = {.due = due};
    enum { WORDS = FACTOR + 30 };
    number words = store.due + WORDS;
    {
        typedef long number;
        number step = words;
        return (int)(step + (number)sizeof(struct store));
    }
}

struct hidden {
    number n;
};

struct SELF_opaque { /* its name is known to shared.h */
    number n;
};

number weir_SELF_of(const struct SELF_opaque *opaque)
{
    return opaque->n;
}

number weir_SELF(char *text, size_t size)
{
    struct store store = {.words = 1, .due = 2, .hook = due, .run = words, .other = due, .find = find};
    struct SELF_opaque opaque = {IDLE};
    struct shared shared = {.call = cold(6)};
    couple couple = {.first = BUSY, .inner = 7};
    choose = choose ? choose : NULL;
    thread_count += (number)strlen(names[0]) + *last + line[0] + quote + marks[1] + tick;
    store.room[IDLE] = ON;
    number n = shared_half(due(1) + words(2)) + picked(2)(3) + store.hook(4) + store.run(5) + store.other(6);
    n += store.find(&store)->deep.words + couple.inner + couple.first + couple.second + store.room[IDLE];
    n += (number)(AT(due) + VIA(room)) + GET(&store, due) + PICK(&store) + SUM(due(1), words(1)) + LOCAL;
    n += branches(2) + branches(4) + shadows(8) + count + thread_count + OFF + weir_SELF_of(&opaque);
    n += (number)sizeof(struct hidden) + store.find(&store)->call + shared.call + (number)measure("text");
    n += access("/", F_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && strlen(text) + 20 < size; i++)
        strcat(strcat(text, names[i]), ",");
    return n;
}

#ifdef __cplusplus
}
#endif
"""
SHARED = """#ifndef SHARED_H
#define SHARED_H
#include "weir.h"
struct base_opaque;
struct core_opaque;
int weir_base_of(const struct base_opaque *opaque);
int weir_core_of(const struct core_opaque *opaque);
struct shared {
    int call, words;
};
static inline int shared_half(int n)
{
    return n / 2;
}
#endif
"""
PUBLIC = """#ifndef WEIR_H
#define WEIR_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
int weir_base(char *text, size_t size);
int weir_core(char *text, size_t size);
int weir_due(void);
#ifdef __cplusplus
}
#endif
#endif
"""
# Its names are those that renaming makes, and those that others know in another meaning.
NAMESAKE = """#include "weir.h"
enum { due_x = 1, x = 20, base_twin_words = 300, FACTOR = 4000, y = 600000 };
static int due(int shared_half, int due_y)
{
    return shared_half + due_x + x + base_twin_words + FACTOR + due_y - y;
}
int weir_due(void)
{
    return due(50000, 700000);
}
"""
CMAKE = """project(weir VERSION 1.2.3)
set(WEIR_BASE # no second list
    src/base/twin.c)
set(WEIR_CORE src/core/twin.c src/core/due.c)
add_library(weir_objects OBJECT ${WEIR_BASE}
    ${WEIR_CORE})
"""
TREE = {
    "CMakeLists.txt": CMAKE,
    "LICENSE": "Do as you like.\n",
    "include/weir.h": PUBLIC,
    "src/base/shared.h": SHARED,
    "src/base/factor.h": "#ifndef FACTOR_H\n#define FACTOR_H\n#define FACTOR 3\n#endif\n",
    "src/base/twin.c": TWIN.replace("FACTOR_LINE", '#include "base/factor.h"').replace("SELF", "base"),
    "src/core/twin.c": TWIN.replace("FACTOR_LINE", "#define FACTOR 5").replace("SELF", "core"),
    "src/core/due.c": NAMESAKE,
}
NEW_NAMES = ("base_twin_due(", "core_twin_due(", "struct base_twin_pair", "CORE_TWIN_WORDS", "due_due(",
             "due_y_")
PROGRAM = """#include <stdio.h>
#include "weir.h"
int main(void)
{
    char base[99] = "", core[99] = "";
    int of_base = weir_base(base, sizeof base), of_core = weir_core(core, sizeof core);
    printf("%d %s %d %s %d\\n", of_base, base, of_core, core, weir_due());
}
"""
REFUSALS = [  # file, what is added in front of it, what is said about it
    ("src/core/due.c", '#include "core/nowhere.h"\n', '"core/nowhere.h" is not in src or include'),
    ("src/core/due.c", '#ifdef X\n#include "base/shared.h"\n#endif\n', "included only sometimes"),
    ("src/core/due.c", '#include "base/factor.h"\n#undef FACTOR\n',
     "the macro FACTOR is known to src/base/factor.h"),
    ("src/core/due.c", '#define weir_due weir_dew\n#include "weir.h"\n',
     "weir_due is known to include/weir.h"),
    ("src/core/due.c", "#define BOTH(x) #x, x\nvoid f(void) { g(BOTH(due_x)); }\n",
     "due.c: a macro has due_x as an argument"),
    ("src/core/due.c", "int weir_h(int FACTOR) { return FACTOR; }\n", None),  # due.c has a FACTOR of its own
    ("src/core/other.h", "int x;\n", "src/core/other.h has no #ifndef"),
    ("src/core/other.h", '#ifndef O\n#define O\n#include "core/other.h"\n#endif\n', "includes this file"),
    ("src/core/other.h", "#ifndef O\n#define O\n#define FACTOR 1\n#endif\n",
     "FACTOR is defined by src/base/factor.h"),
    ("src/core/other.h", "#ifndef O\n#define O\nstruct y { int FACTOR; };\n#endif\n",
     "FACTOR is a macro of src/base/factor.h"),
    ("src/core/other.h", "#ifndef O\n#define O\nstatic inline int shared_half(void) { return 1; }\n#endif\n",
     "shared_half is defined by src/base/shared.h"),
    ("CMakeLists.txt", "add_library(weir_objects OBJECT src/x.c)\n", "src/x.c is no list of sources"),
]


def write_tree(root, changes):
    for name, text in (TREE | changes).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def check_twins(script, folder):
    root = folder / "twins"
    write_tree(root, {"main.c": PROGRAM})
    try:
        text = script.amalgamate(root)
    except script.Fault as fault:
        return [f"twins: {fault}"]
    (root / "weir.c").write_text(text)
    sources = [root / name for name in TREE if name.endswith(".c")]
    flags = ("-std=gnu17", f"-I{root / 'src'}", f"-I{root / 'include'}", root / "main.c")
    faults = [f"twins: there is no {name} in weir.c" for name in NEW_NAMES if name not in text]
    faults += say("cc", *flags, *sources, "-o", root / "apart")
    faults += say("cc", *flags, root / "weir.c", "-o", root / "one")
    if not faults and (got := abi.output(root / "one")) != (want := abi.output(root / "apart")):
        faults = [f"twins: in one file: {got}apart: {want}"]
    return faults


def check_refusals(script, folder):
    """What cannot be put into one file is refused with a reason."""
    faults = []
    for number, (name, text, part) in enumerate(REFUSALS):
        root = folder / f"refusal-{number}"
        changes = {name: text + TREE.get(name, "")}
        if name.endswith("other.h"):
            changes["src/core/due.c"] = '#include "core/other.h"\n' + NAMESAKE
        write_tree(root, changes)
        try:
            script.amalgamate(root)
            said = None
        except script.Fault as fault:
            said = str(fault)
        if (said is None) != (part is None) or part and part not in said:
            faults.append(f"{name} with {text!r}: expected {part!r}, got {said!r}")
    return faults


# ---- all of it -------------------------------------------------------------------------------------


def jobs():
    """What can be done side by side, the longest first. Most of it needs weir.o."""
    for compiler in ("gcc", "clang"):
        yield check_compiler, compiler
    for check in (check_inside, check_symbols, check_header, check_cpp):
        yield check,
    for source in examples():
        yield check_example, source
    for source in vectors():
        yield check_vector, source


def main():
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder, script = pathlib.Path(name), load_script()
        install.run(sys.executable, SCRIPT, folder)
        alone = folder / "alone"
        alone.mkdir()
        faults = say("cc", "-fPIC", "-c", shutil.copy(folder / "weir.c", alone), "-o", folder / "weir.o")
        running = [] if faults else [pool.submit(check, folder, *more) for check, *more in jobs()]
        faults += check_twins(script, folder) + check_refusals(script, folder)
        for done in running:
            faults += done.result()
        lines = (folder / "weir.c").read_text().count("\n")
    print("\n".join(faults) or f"weir.c: {lines} lines, {len(examples())} examples")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
