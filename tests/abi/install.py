#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library as its users meet it: installed, for C and C++, by pkg-config and as a CMake package, shared and
static, once as part of everything, once built alone with WEIR_LIBRARY_ONLY; and as a folder of their own tree.

usage: install.py      with WEIR_BUILD naming the build folder
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import abi

ROOT = abi.ROOT
EXAMPLE = ROOT / "examples" / "01-first-limit.c"
FLEET_EXAMPLE = ROOT / "examples" / "18-fleet.c"
CPP = """#include <iostream>
#include <memory>
#include <vector>
#include <weir.h>

int main()
{
    weir_error err{};
    std::unique_ptr<weir_policy, decltype(&weir_policy_free)> policy{weir_policy_new("10/s burst=3", &err),
                                                                     weir_policy_free};
    if (!policy)
        return std::cerr << err.text << '\\n', 1;
    std::vector<int64_t> state(weir_policy_state_size(policy.get()) / sizeof(int64_t));
    weir_state_init(policy.get(), state.data(), 0);
    weir_verdict verdict{};
    while (weir_state_take(policy.get(), state.data(), WEIR_SEC, 1, &verdict))
        std::cout << verdict.remaining << " left\\n";
    std::cout << "again in " << verdict.retry_after_ns / WEIR_MS << " ms\\n";
}
"""
BENCH = ("bin/weir-bench", "share/man/man1/weir-bench.1")
CPP_PRINTS = "2 left\n1 left\n0 left\nagain in 100 ms\n"
CPP_FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror")
MACHINE_CODE = "-fno-lto"  # what linkers use of libweir.a that know nothing of gcc
PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(weir 999 QUIET)
if(weir_FOUND)
    message(FATAL_ERROR "weir 999 is not installed, but was found")
endif()
find_package(weir 0.1 REQUIRED)
set(CMAKE_CXX_STANDARD 17)
foreach(library weir weir-static)
    add_executable(c-with-${{library}} "{EXAMPLE}")
    add_executable(cpp-with-${{library}} program.cpp)
    target_link_libraries(c-with-${{library}} PRIVATE weir::${{library}})
    target_link_libraries(cpp-with-${{library}} PRIVATE weir::${{library}})
endforeach()
"""
FLEET_PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(weir 0.1 REQUIRED)
foreach(library weir-fleet weir-fleet-static)
    add_executable(fleet-with-${{library}} "{FLEET_EXAMPLE}")
    target_link_libraries(fleet-with-${{library}} PRIVATE weir::${{library}})
endforeach()
"""
PARENT = f"""
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C)
add_subdirectory("{ROOT}" weir)
if(CMAKE_BUILD_TYPE OR TARGET example-01-first-limit)
    message(FATAL_ERROR "weir does more here than it was asked for")
endif()
foreach(library weir weir-static)
    add_executable(c-with-${{library}} "{EXAMPLE}")
    target_link_libraries(c-with-${{library}} PRIVATE weir::${{library}})
endforeach()
"""


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return done.stdout


def expect(right, message):
    if not right:
        sys.exit(message)


def dynamic(file, what):
    """NEEDED or SONAME of a program or library."""
    return re.findall(rf"\({what}\).*\[(.*)\]", run("readelf", "-d", file))


def is_libc(name):
    return name.startswith(("libc.so", "ld-linux"))


def version():
    return re.search(r'WEIR_VERSION +"([\d.]+)"', abi.HEADER.read_text()).group(1)


# ---- the files -------------------------------------------------------------------------------------


def check_library(folder):
    """Name, version, what it shows and what it needs."""
    soname = f"libweir.so.{version().rpartition('.')[0]}"
    real = f"libweir.so.{version()}"
    expect(dynamic(folder / "libweir.so", "SONAME") == [soname], f"the SONAME is not {soname}")
    for link in ("libweir.so", soname):
        expect((folder / link).resolve().name == real, f"{link} is no link to {real}")
    foreign = [name for name in dynamic(folder / real, "NEEDED") if not is_libc(name)]
    expect(not foreign, f"libweir.so needs {foreign}; libc has to be enough")

    want = (abi.HERE / "symbols.txt").read_text().split()
    faults = abi.compare("libweir.so", abi.exported(folder / real), want)
    faults += abi.compare("libweir.a", set(want) & set(abi.external(folder / "libweir.a")), want)
    expect(not faults, "\n".join(faults))


def check_files(prefix, whole):
    """The command and what belongs to it come with the whole, and only with it."""
    for name in ("bin/weir", "share/man/man1/weir.1", "share/man/man1/weir-spec.1",
                 "share/bash-completion/completions/weir", "share/weir/weir.yaml", "lib/systemd/system/weir.socket",
                 "lib/systemd/system/weir-http.socket", "lib/systemd/system/weir.service"):
        expect((prefix / name).exists() == whole, f"{name} was {'not ' if whole else ''}installed")
    for name in BENCH:
        expect(not (prefix / name).exists(), f"{name} was installed with the server")
    if whole:
        unit = (prefix / "lib/systemd/system/weir.service").read_text()
        expect(f"ExecStart={prefix}/bin/weir serve " in unit, "weir.service starts another weir")
    headers = {abi.HEADER: "libweir"} | ({abi.FLEET_HEADER: "libweir-fleet"} if whole else {})
    installed = sorted(path.name for path in (prefix / "include").iterdir())
    expect(installed == sorted(header.name for header in headers), f"headers are {installed}")
    pages, want = prefix / "share" / "man" / "man3", {}
    for header, page in headers.items():
        expect((prefix / "include" / header.name).read_text() == header.read_text(), f"{header.name} is another one")
        expect((pages / f"{page}.3").exists(), f"{page}.3 was not installed")
        want |= {name: page for name in abi.SYMBOLS[header].read_text().split()}
    faults = abi.compare("man3", [page.stem for page in pages.glob("weir_*.3")], want)
    faults += [f"{page.name} does not lead to {want.get(page.stem)}(3)" for page in pages.glob("weir_*.3")
               if page.read_text() != f".so man3/{want.get(page.stem)}.3\n"]
    expect(not faults, "\n".join(faults))


# ---- programs --------------------------------------------------------------------------------------


def build_by_pkg_config(here, libraries):
    """The same two programs, shared and static; gives their paths."""
    env = {**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}

    def ask(*options):
        return shlex.split(run("pkg-config", *options, "weir", env=env))

    expect(ask("--modversion") == [version()], f"pkg-config names another version than {version()}")
    shared = [*ask("--cflags", "--libs"), f"-Wl,-rpath,{libraries}"]
    static = [*ask("--static", "--cflags", "--libs"), "-static"]
    run("cc", EXAMPLE, "-o", here / "c-static", *static)  # optimised by the linker, if the build was made for that
    run("c++", *CPP_FLAGS, here / "program.cpp", "-o", here / "cpp-static", *static, MACHINE_CODE)
    run("cc", EXAMPLE, "-o", here / "c-shared", *shared)
    run("c++", *CPP_FLAGS, here / "program.cpp", "-o", here / "cpp-shared", *shared)
    return [here / f"{language}-{kind}" for language in ("c", "cpp") for kind in ("shared", "static")]


def build_by_cmake(here, prefix):
    build = build_project(here, PROJECT, f"-DCMAKE_PREFIX_PATH={prefix}")
    return [build / f"{language}-with-weir{kind}" for language in ("c", "cpp") for kind in ("", "-static")]


def build_project(here, project, *options):
    build = here / "build"
    (here / "CMakeLists.txt").write_text(project)
    run("cmake", "-G", "Ninja", "-S", here, "-B", build, f"-DCMAKE_EXE_LINKER_FLAGS={MACHINE_CODE}", *options)
    run("cmake", "--build", build, "-j", "2")
    return build


def check_programs(programs):
    for program in programs:
        want = CPP_PRINTS if program.name.startswith("cpp-") else EXAMPLE.with_suffix(".out").read_text()
        got = run(program)
        expect(got == want, f"{program.name} prints\n{got}and not\n{want}")
        shared = [name for name in dynamic(program, "NEEDED") if name.startswith("libweir")]
        is_static = "static" in program.name
        expect(is_static == (not shared), f"{program.name} needs {shared or 'no libweir.so'}")


def check_fleet(here, prefix, libraries):
    """A program of a fleet: by pkg-config and by CMake; the shared library uses libweir.so."""
    here.mkdir()
    env = {**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    flags = shlex.split(run("pkg-config", "--cflags", "--libs", "weir-fleet", env=env))
    run("cc", FLEET_EXAMPLE, "-o", here / "fleet-shared", *flags, f"-Wl,-rpath,{libraries}")
    build = build_project(here, FLEET_PROJECT, f"-DCMAKE_PREFIX_PATH={prefix}")
    for program in (here / "fleet-shared", build / "fleet-with-weir-fleet", build / "fleet-with-weir-fleet-static"):
        got, want = run(program), FLEET_EXAMPLE.with_suffix(".out").read_text()
        expect(got == want, f"{program.name} prints\n{got}and not\n{want}")
        needed = [name for name in dynamic(program, "NEEDED") if name.startswith("libweir")]
        expect(bool(needed) == ("static" not in program.name), f"{program.name} needs {needed}")


def check_install(here, build, whole):
    """Installs a build into a folder whose name has a blank, and uses it from there."""
    here.mkdir()
    prefix = here / "the prefix"
    run("cmake", "--install", build, "--prefix", prefix)
    libraries = next(prefix.rglob("weir.pc")).parent.parent
    check_files(prefix, whole)
    check_library(libraries)
    (here / "program.cpp").write_text(CPP)
    check_programs(build_by_pkg_config(here, libraries) + build_by_cmake(here, prefix))
    if whole:
        check_fleet(here / "fleet", prefix, libraries)


def check_bench(prefix, build):
    """weir-bench comes alone, and only for who asks."""
    run("cmake", "--install", build, "--prefix", prefix, "--component", "bench")
    installed = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file())
    expect(installed == list(BENCH), f"the component bench is {installed}")


def check_subdirectory(here):
    """A project that has weir among its own folders: the same targets, and nothing but the library."""
    here.mkdir()
    build = build_project(here, PARENT)
    expect(not (build / "weir" / "weir").exists(), "the command was built, too")
    check_programs([build / "c-with-weir", build / "c-with-weir-static"])


def build_library_only(build):
    """On a machine with a C compiler and CMake, but without Python and C++."""
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DWEIR_LIBRARY_ONLY=ON", "-DWEIR_WERROR=ON",
        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON",
        "-DCMAKE_CXX_COMPILER=/nowhere/c++")
    run("cmake", "--build", build, "-j", "2")


def main():
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        check_install(here / "whole", os.environ["WEIR_BUILD"], whole=True)
        check_bench(here / "bench", os.environ["WEIR_BUILD"])
        build_library_only(here / "build")
        check_install(here / "library", here / "build", whole=False)
        check_subdirectory(here / "parent")
    print("whole and library only: pkg-config, CMake package, shared, static, C and C++; as a subdirectory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
