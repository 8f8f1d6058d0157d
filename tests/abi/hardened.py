#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command and the libraries as built, the flags of every build type (cmake/harden.cmake), the unit for systemd.

usage: hardened.py   with WEIR_BUILD naming the build folder
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD_TYPES = {"Debug": False, "Release": True, "RelWithDebInfo": True, "MinSizeRel": True}  # is it optimised?
FLAGS = ["-fstack-protector-strong", "-fstack-clash-protection"] \
    + {"x86_64": ["-fcf-protection=full"], "aarch64": ["-mbranch-protection=standard"]}.get(platform.machine(), [])
PROPERTIES = {"x86_64": ("IBT", "SHSTK"), "aarch64": ("BTI", "PAC")}.get(platform.machine(), ())
FORTIFIED = re.compile(r"UND __(?!stack)\w+_chk\b")  # what libc has for _FORTIFY_SOURCE


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def cached(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def check_file(file, is_program, is_fortified):
    """Gives what is missing in an ELF file."""
    dynamic, segments = output("readelf", "-dW", file), output("readelf", "-lW", file)
    symbols = output("readelf", "--dyn-syms", "-W", file)
    stack = re.search(r"GNU_STACK .* (\S+) +0x\w+$", segments, re.M)
    wanted = {
        "all symbols bound at start (BIND_NOW)": "BIND_NOW" in dynamic or re.search(r"FLAGS_1.*\bNOW\b", dynamic),
        "read-only relocations (GNU_RELRO)": "GNU_RELRO" in segments,
        "a stack that is no code": stack and "E" not in stack.group(1),
        "no segment that is written and run": not re.search(r" RWE ", segments),
        "a stack protector": "__stack_chk_fail" in symbols,
        "libc's checks (_FORTIFY_SOURCE)": not is_fortified or FORTIFIED.search(symbols),
        "code that can be put anywhere (PIE)": not is_program or re.search(r"FLAGS_1.*\bPIE\b", dynamic),
    }
    return [f"{file.name} lacks {what}" for what, is_there in wanted.items() if not is_there]


def check_archive(archive):
    """Which members lack the marks of -fcf-protection and the like. Programs and shared libraries have them only if
    libc's start files do."""
    members = re.split(r"^File: ", output("readelf", "-nW", archive), flags=re.M)[1:]
    faults = [f"{member.split()[0]} is not marked {name}" for member in members for name in PROPERTIES
              if not re.search(rf"feature: .*\b{name}\b", member)]
    return faults if members else [f"{archive.name} has no members"]


def check_build_types(compiler):
    """Configures libweir for all build types, and gives what the compiler's command lines lack."""
    with tempfile.TemporaryDirectory() as folder:
        output("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja Multi-Config", "-DWEIR_LIBRARY_ONLY=ON",
               f"-DCMAKE_C_COMPILER={compiler}", f"-DCMAKE_CONFIGURATION_TYPES={';'.join(BUILD_TYPES)}")
        commands = json.loads((pathlib.Path(folder) / "compile_commands.json").read_text())
    faults, seen = [], dict.fromkeys(BUILD_TYPES, 0)
    for words in (entry["command"].split() for entry in commands):
        name = next(name for name in BUILD_TYPES if any(f"/{name}/" in word for word in words))
        seen[name] += 1
        wanted = FLAGS + (["-D_FORTIFY_SOURCE=3"] if BUILD_TYPES[name] else [])
        faults += [f"{name}: {words[-1]} is compiled without {flag}" for flag in wanted if flag not in words]
    return faults + [f"{name}: nothing is compiled" for name, count in seen.items() if count == 0]


def check_unit():
    """What the unit for systemd has to say beside the rest: no core files, a bound on memory."""
    lines = (ROOT / "dist" / "weir.service.in").read_text().splitlines()
    wanted = {"LimitCORE=0": "LimitCORE=0" in lines, "MemoryMax=": any(re.match(r"MemoryMax=\d", line) for line in lines)}
    return [f"dist/weir.service.in lacks {what}" for what, is_there in wanted.items() if not is_there]


def main():
    build = pathlib.Path(os.environ["WEIR_BUILD"])
    optimised = BUILD_TYPES[cached(build, "CMAKE_BUILD_TYPE")]
    faults = check_file(build / "weir", True, optimised)
    for library in ("libweir.so", "libweir-fleet.so"):
        faults += check_file((build / library).resolve(), False, optimised)
        faults += check_archive((build / library).with_suffix(".a"))
    faults += check_unit()
    faults += check_build_types(cached(build, "CMAKE_C_COMPILER"))
    print("\n".join(faults[:20]) if faults else "all is hardened")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
