#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What libweir shows to others: symbols, needed libraries, a header for every C and C++.

usage: abi.py            with WEIR_BUILD naming the build folder
       abi.py --update   writes symbols.txt anew from weir.h; a reviewer sees the difference
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEADER = ROOT / "include" / "weir.h"
DIALECTS = [("cc", "c", std) for std in ("c99", "c11", "c17")] \
    + [("c++", "c++", std) for std in ("c++98", "c++11", "c++14", "c++17", "c++20")]


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def declared():
    """The functions that weir.h marks with WEIR_API."""
    return sorted(set(re.findall(r"^WEIR_API[^;]*?\b(weir_\w+)\s*\(", HEADER.read_text(), re.M)))


def mapped():
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "src" / "libweir.map").read_text(), flags=re.S)
    return sorted(re.findall(r"\b(weir_\w+);", text))


def exported(library):
    names = [line.split() for line in output("nm", "-D", "--defined-only", library).splitlines()]
    return sorted(words[2].split("@")[0] for words in names if words[1] != "A")  # A: the version node


def external(archive):
    lines = output("nm", "-g", "--defined-only", archive).splitlines()
    return sorted({words[2] for line in lines if len(words := line.split()) == 3 and words[1] != "C"})


def compare(what, got, want):
    """What the list has too many or too few of."""
    return [f"{what}: {name} is missing" for name in sorted(set(want) - set(got))] \
        + [f"{what}: {name} is one too many" for name in sorted(set(got) - set(want))]


def check_header(compiler, language, std):
    """The header alone, with every warning, in one dialect."""
    done = subprocess.run([compiler, "-x", language, f"-std={std}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                           "-fsyntax-only", f"-I{ROOT / 'include'}", "-"], input='#include "weir.h"\n',
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [f"weir.h as {std}: {done.stdout}"] if done.returncode else []


def main():
    symbols = HERE / "symbols.txt"
    if sys.argv[1:] == ["--update"]:
        symbols.write_text("".join(f"{name}\n" for name in declared()))
        return 0
    build = pathlib.Path(os.environ["WEIR_BUILD"])
    library, archive = build / "libweir.so", build / "libweir.a"

    want = symbols.read_text().split()
    faults = compare("weir.h", declared(), want)
    faults += compare("libweir.map", mapped(), want)
    faults += compare("libweir.so", exported(library), want)
    faults += compare("libweir.a", [name for name in external(archive) if name in want], want)
    faults += [f"libweir.a: {name} does not start with weir_" for name in external(archive)
               if not name.startswith("weir_")]
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))
    faults += [f"libweir.so needs {name}; libc has to be enough" for name in needed
               if not name.startswith(("libc.so", "ld-linux"))]
    for compiler, language, std in DIALECTS:
        if shutil.which(compiler):
            faults += check_header(compiler, language, std)
        else:
            print(f"no {compiler} here: weir.h not tried as {std}")
    print("\n".join(faults) or f"{len(want)} functions, {', '.join(needed)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
