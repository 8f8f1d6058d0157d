#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The installed library as its users meet it: by pkg-config and as a CMake package, shared and static.

usage: install.py      with WEIR_BUILD naming the build folder
"""

import os
import pathlib
import subprocess
import sys
import tempfile

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "01-first-limit.c"
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(weir 0.1 REQUIRED)
foreach(library weir weir-static)
    add_executable(with-${{library}} "{EXAMPLE}")
    target_link_libraries(with-${{library}} PRIVATE weir::${{library}})
endforeach()
"""


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        prefix = here / "prefix"
        run("cmake", "--install", os.environ["WEIR_BUILD"], "--prefix", prefix)

        where = next(prefix.rglob("weir.pc")).parent
        flags = run("pkg-config", "--cflags", "--libs", "weir", env={**os.environ, "PKG_CONFIG_PATH": str(where)})
        run("cc", EXAMPLE, "-o", here / "by-pkg-config", *flags.split(), f"-Wl,-rpath,{where.parent}")

        (here / "CMakeLists.txt").write_text(PROJECT)
        run("cmake", "-G", "Ninja", "-S", here, "-B", here / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", here / "build")

        want = EXAMPLE.with_suffix(".out").read_text()
        for program in ("by-pkg-config", "build/with-weir", "build/with-weir-static"):
            if run(here / program) != want:
                sys.exit(f"{program} does not print what {EXAMPLE.name} should")
        for name in ("bin/weir", "share/man/man1/weir.1", "share/man/man1/weir-spec.1",
                     "share/bash-completion/completions/weir"):
            if not (prefix / name).exists():
                sys.exit(f"{name} was not installed")
    print("pkg-config, CMake package, shared, static")
    return 0


if __name__ == "__main__":
    sys.exit(main())
