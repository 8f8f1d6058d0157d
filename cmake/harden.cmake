# SPDX-License-Identifier: MIT
#
# Flags that turn a memory error into a clean abort, or make it harder to use: in every build type, as far as
# compiler and linker have them. What they cost is measured by `weir bench`; WEIR_HARDEN=OFF leaves them out.
# tests/abi/hardened.py looks for them in what was built.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)

# -fcf-protection is for x86, -mbranch-protection for ARM; each compiler knows its own.
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "WEIR_HAS${flag}" known)
    set(CMAKE_REQUIRED_FLAGS -Werror) # clang only warns of a flag that it does not use
    check_c_compiler_flag(${flag} ${known})
    unset(CMAKE_REQUIRED_FLAGS)
    if(${known})
        add_compile_options(${flag})
    endif()
endforeach()

# libc's checks need an optimiser, and hide calls from the sanitizers, which check more.
if(NOT WEIR_SANITIZE)
    add_compile_options("$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
endif()

foreach(flag relro now noexecstack)
    check_linker_flag(C -Wl,-z,${flag} WEIR_HAS_z_${flag})
    if(WEIR_HAS_z_${flag})
        add_link_options(-Wl,-z,${flag})
    endif()
endforeach()

# A cross build is static: it has no dynamic linker that could move it.
if(NOT CMAKE_CROSSCOMPILING)
    check_pie_supported(LANGUAGES C)
endif()
