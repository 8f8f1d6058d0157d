#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What libweir and libweir-fleet show to others: symbols, needed libraries, headers for every C and C++.

usage: abi.py            with WEIR_BUILD naming the build folder
       abi.py --update   writes symbols*.txt anew from the headers; a reviewer sees the difference
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
FLEET_HEADER = ROOT / "include" / "weir-fleet.h"
SYMBOLS = {HEADER: HERE / "symbols.txt", FLEET_HEADER: HERE / "symbols-fleet.txt"}
PRIVATE = "WEIR_PRIVATE_"  # the node of what libweir.so has for libweir-fleet.so alone
DIALECTS = [("cc", "c", std) for std in ("c99", "c11", "c17")] \
    + [("c++", "c++", std) for std in ("c++98", "c++11", "c++14", "c++17", "c++20")]


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def declared(header=HEADER):
    """The functions that a header marks with WEIR_API."""
    return sorted(set(re.findall(r"^WEIR_API[^;]*?\b(weir_\w+)\s*\(", header.read_text(), re.M)))


def mapped(name="libweir.map"):
    """The functions of a version script by their kind: for programs, and private ones."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "src" / name).read_text(), flags=re.S)
    public, private = [], []
    for node, body in re.findall(r"(\w[\w.]*)\s*\{(.*?)\}", text, re.S):
        (private if node.startswith(PRIVATE) else public).extend(re.findall(r"\b(weir_\w+);", body))
    return sorted(public), sorted(private)


def dynamic(library, which):
    """Names and nodes of dynamic symbols: `which` is --defined-only or --undefined-only."""
    names = [line.split() for line in output("nm", "-D", which, library).splitlines()]
    return [words[-1].split("@") for words in names if words[-2] != "A"]  # A: the version node


def exported(library):
    return sorted(name for name, *node in dynamic(library, "--defined-only")
                  if not node or not node[-1].startswith(PRIVATE))


def exported_privately(library):
    return sorted(name for name, *node in dynamic(library, "--defined-only")
                  if node and node[-1].startswith(PRIVATE))


def external(archive):
    lines = output("nm", "-g", "--defined-only", archive).splitlines()
    return sorted({words[2] for line in lines if len(words := line.split()) == 3 and words[1] != "C"})


def compare(what, got, want):
    """What the list has too many or too few of."""
    return [f"{what}: {name} is missing" for name in sorted(set(want) - set(got))] \
        + [f"{what}: {name} is one too many" for name in sorted(set(got) - set(want))]


def check_header(header, compiler, language, std):
    """A header alone, with every warning, in one dialect."""
    done = subprocess.run([compiler, "-x", language, f"-std={std}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                           "-fsyntax-only", f"-I{ROOT / 'include'}", "-"], input=f'#include "{header.name}"\n',
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [f"{header.name} as {std}: {done.stdout}"] if done.returncode else []


def check_library(header, build, name, libraries):
    """Header, version script, shared library and archive say the same; `libraries` are all it needs."""
    library, archive = build / f"{name}.so", build / f"{name}.a"
    want = SYMBOLS[header].read_text().split()
    faults = compare(header.name, declared(header), want)
    faults += compare(f"{name}.map", mapped(f"{name}.map")[0], want)
    faults += compare(f"{name}.so", exported(library), want)
    faults += compare(f"{name}.a", [symbol for symbol in external(archive) if symbol in want], want)
    faults += [f"{name}.a: {symbol} does not start with weir_" for symbol in external(archive)
               if not symbol.startswith("weir_")]
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library))
    faults += [f"{name}.so needs {other}; {', '.join(libraries)} have to be enough" for other in needed
               if not other.startswith(libraries)]
    if "STATIC_TLS" in output("readelf", "-dW", library):
        faults.append(f"{name}.so wants room in the static TLS block: musl refuses to dlopen it, and glibc may")
    print(f"{name}: {len(want)} functions, {', '.join(needed)}")
    return faults


def check_private(build):
    """libweir.so has for libweir-fleet.so what that uses, and nothing else; and that uses nothing else."""
    private = mapped()[1]
    used = [(symbol, node[-1] if node else "") for symbol, *node in
            dynamic(build / "libweir-fleet.so", "--undefined-only") if symbol.startswith("weir_")]
    faults = compare("libweir.so, privately", exported_privately(build / "libweir.so"), private)
    faults += compare("libweir-fleet.so uses", [symbol for symbol, node in used if node.startswith(PRIVATE)], private)
    return faults + [f"libweir-fleet.so: {symbol} is no function of weir.h" for symbol, node in used
                     if not node.startswith(PRIVATE) and symbol not in declared()]


def main():
    if sys.argv[1:] == ["--update"]:
        for header, symbols in SYMBOLS.items():
            symbols.write_text("".join(f"{name}\n" for name in declared(header)))
        return 0
    build = pathlib.Path(os.environ["WEIR_BUILD"])
    faults = check_library(HEADER, build, "libweir", ("libc.so", "ld-linux"))
    faults += check_library(FLEET_HEADER, build, "libweir-fleet", ("libc.so", "ld-linux", "libweir.so", "libzookeeper_mt.so",
                                                                   "libssl.so", "libcrypto.so"))
    faults += check_private(build)
    for compiler, language, std in DIALECTS:
        if shutil.which(compiler):
            for header in SYMBOLS:
                faults += check_header(header, compiler, language, std)
        else:
            print(f"no {compiler} here: headers not tried as {std}")
    print("\n".join(faults) or "all is well")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
