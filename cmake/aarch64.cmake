# SPDX-License-Identifier: MIT
#
# Cross build for 64-bit ARM on a Debian machine; qemu runs what it builds. Static, so that no ARM libc has to
# be found at run time.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
# The usual way of qemu to sign return addresses (-mbranch-protection) takes longer than all else together.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu max,pauth-impdef=on)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
