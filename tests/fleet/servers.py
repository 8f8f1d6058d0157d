# SPDX-License-Identifier: MIT
"""What real coordinators of tests have in common: processes on this machine, in a folder of their own, that are
killed at the end whatever happens."""

import contextlib
import errno
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess

LOT = random.SystemRandom()


def free_ports(count, host="127.0.0.1"):
    """Below those that the system gives out by itself, so that nobody comes upon them until they are bound."""
    least = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            try:
                one.bind((host, LOT.randrange(least // 2, least)))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            found.append(one.getsockname()[1])
    return found


def wall_environment(hours):
    """For a process whose wall clock is wrong by so much (wall.c); its other clocks are right."""
    if not hours:
        return dict(os.environ)
    library = pathlib.Path(os.environ.get("WEIR_BUILD", "build/release")).resolve() / "tests" / "libfleet-wall.so"
    if not library.exists():
        raise RuntimeError(f"{library} is missing: build the target fleet-wall")
    return dict(os.environ, LD_PRELOAD=str(library), WEIR_TEST_WALL=str(3600 * hours))


class Servers:
    """Numbered from 0. Who inherits it sets `folder`, `processes`, and for each `prefix` and `wall`, and begins."""

    def begin(self):
        raise NotImplementedError

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for i, process in enumerate(self.processes):
            if process:
                self.kill9(i)
        shutil.rmtree(self.folder, ignore_errors=True)

    def launch(self, i, command):
        with open(self.folder / str(i) / "log", "ab") as log:
            self.processes[i] = subprocess.Popen([*self.prefix[i], *command], stdout=log, stderr=log,
                                                 env=wall_environment(self.wall[i]), stdin=subprocess.DEVNULL)

    def kill9(self, i):
        self.processes[i].kill()
        self.processes[i].wait()
        self.processes[i] = None

    def stop(self, i):
        self.processes[i].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.processes[i].pid, os.WSTOPPED | os.WNOWAIT)  # its threads stop one by one

    def cont(self, i):
        self.processes[i].send_signal(signal.SIGCONT)
