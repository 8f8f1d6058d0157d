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
LEVEL = {"gcc": "-O2", "clang": "-O0"}  # gcc fuses and warns when it optimises, clang before that
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
    faults = say(compiler, "-std=gnu17", LEVEL[compiler], *FUSE, *WARNINGS, *flags, "-c", source, "-o", target)
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

# A small library: headers that include each other's neighbours, feature macros, headers of the system.
TREE = {
    "CMakeLists.txt": "project(weir VERSION 1.2.3)\nset(WEIR_BASE # no second list\n    src/base/half.c)\n"
                      "set(WEIR_CORE src/core/due.c)\n"
                      "add_library(weir_objects OBJECT ${WEIR_BASE}\n    ${WEIR_CORE})\n",
    "LICENSE": "Do as you like.\n",
    "include/weir.h": "#ifndef WEIR_H\n#define WEIR_H\nint weir_due(int n);\n#endif\n",
    "src/base/half.h": "/* SPDX-License-Identifier: MIT */\n#ifndef HALF_H\n#define HALF_H\n#include <stddef.h>\n"
                       "int weir_half(size_t n);\n#endif\n",
    "src/base/half.c": '#define _GNU_SOURCE\n#include "base/half.h"\n\nint weir_half(size_t n)\n{\n'
                       "    return (int)n / 2;\n}\n",
    "src/core/due.c": '#define _GNU_SOURCE\n#include "weir.h"\n#include "base/half.h"\n#if defined(__linux__)\n'
                      "#include <unistd.h>\n#endif\nint weir_due(int n)\n{\n    return weir_half((size_t)n);\n}\n",
}
SEQUENCE = ("weir.c: libweir 1.2.3", " * Do as you like.", "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif",
            "#include <stddef.h>", "==== src/base/half.h", "int weir_half(size_t n);", "==== src/base/half.c",
            "return (int)n / 2", "==== include/weir.h", "int weir_due(int n);", "==== src/core/due.c",
            "visibility push(default)\n#include <unistd.h>", "return weir_half((size_t)n)")
REFUSALS = [  # file, what is added in front of it, what is said about it
    ("src/core/due.c", '#include "core/nowhere.h"\n', '"core/nowhere.h" is not in src or include'),
    ("src/core/due.c", '#ifdef X\n#include "base/half.h"\n#endif\n', "included only sometimes"),
    ("src/base/half.h", "int x;\n#ifdef X\n#endif\n", None),
    ("include/weir.h", "#include <limits.h>\n#if X\n#endif\n#define Y\n", None),
    ("CMakeLists.txt", "add_library(weir_objects OBJECT src/x.c)\n", "src/x.c is no list of sources"),
]


def write_tree(root, changes):
    for name, text in (TREE | changes).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def check_sequence(script, folder):
    """Every part is there once, in its place."""
    root = folder / "small"
    write_tree(root, {})
    text, at = script.amalgamate(root), 0
    for part in SEQUENCE:
        at = text.find(part, at)
        if at < 0 or text.count(part) != 1:
            return [f"small library: {part!r} is missing, comes twice or in the wrong place"]
    (root / "weir.c").write_text(text)
    return say("cc", "-std=c17", *WARNINGS, "-fsyntax-only", root / "weir.c")


def check_refusals(script, folder):
    """What cannot be put into one file is refused with a reason."""
    faults = []
    bare = ("src/base/half.h", TREE["src/base/half.h"].replace("HALF_H", "", 1), "half.h has no #ifndef")
    for number, (name, text, part) in enumerate([*[(n, t + TREE[n], p) for n, t, p in REFUSALS], bare]):
        root = folder / f"refusal-{number}"
        write_tree(root, {name: text})
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
        faults += check_sequence(script, folder) + check_refusals(script, folder)
        for done in running:
            faults += done.result()
        lines = (folder / "weir.c").read_text().count("\n")
    print("\n".join(faults) or f"weir.c: {lines} lines, {len(examples())} examples")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
