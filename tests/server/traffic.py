# SPDX-License-Identifier: MIT
"""What drivers of long loads share: a client with a steady rate, descriptors, figures of INFO."""

import json
import os
import re
import resource
import subprocess
import time

import server

BUILD = os.environ.get("WEIR_BUILD", str(server.ROOT / "build" / "release"))
STEADY = os.path.join(BUILD, "tests", "server-steady")


def raise_files(count=None):
    """As many descriptors as this process may have. Gives how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(hard, count or 0)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Steady:
    """server-steady: keeps its rate whatever happens."""

    def __init__(self, weir, policy, keys, rate, pipeline=1, connections=4, http=False):
        address = f"http:{weir.ports['http']}" if http else str(weir.path or weir.port)
        line = [STEADY, address, policy, str(keys), str(rate), str(pipeline), str(connections)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answered = 0

    def begin(self, what, number):
        self.process.stdin.write(f"{what} {number}\n")
        self.process.stdin.flush()

    def end(self):
        """The figures of what was begun."""
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the steady client has ended with status {self.process.wait()}")
        figures = json.loads(line)
        self.answered += figures["answered"]
        return figures

    def run(self, seconds):
        self.begin("run", seconds)
        return self.end()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def info(client, *sections):
    """INFO as a dictionary; values of the form a=1,b=2 are dictionaries, too."""
    found = {}
    for line in client.ask("INFO", *sections).splitlines():
        name, colon, value = line.partition(":")
        if not colon:
            continue
        parts = re.fullmatch(r"(\w+=[^,=]*,)*\w+=[^,=]*", value)
        found[name] = dict(part.split("=") for part in value.split(",")) if parts else value
    return found


def wait_until(fulfilled, what):
    """Asks again and again, for as long as patience lasts."""
    end = time.monotonic() + server.PATIENCE
    while not fulfilled():
        if time.monotonic() > end:
            raise AssertionError(f"never came: {what}")


def shown_us(figures):
    return "  ".join(f"{name} {figures[f'{name}_us'] / 1000:8.3f} ms" for name in ("p50", "p99", "p999", "p9999"))
