# SPDX-License-Identifier: MIT
"""A bystander keeps its load while others do nothing and still others do harm: abuse.py [--http | --tls]
[SECONDS [IDLE [ABUSIVE]]]

Prints what an idle connection costs, what the bystander notices, and why connections were closed. Exit status 1 if the
server was harmed: it died, lost or miscounted a request, or kept what it used for those who have left. With --http all of
them speak HTTP; with --tls all but the bystander come by TLS.
"""

import collections
import json
import pathlib
import random
import re
import socket
import ssl
import subprocess
import sys
import tempfile

import server
import traffic

CONFIG = """\
users:
  - {name: default, may: all}
  - {name: operator, password: not to be guessed, may: all}
policies:
  - {name: bystander, limits: [1M/s]}
  - {name: crowd, limits: [1000/s]}
"""
PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
RATE = 2000  # requests of the bystander in a second


class Idle:
    """Connections that have asked one thing and then nothing more."""

    def __init__(self, port, count, http, tls):
        self.sockets = []
        self.question, self.reply = (PROBE, b"HTTP/1.1 200 ") if http else (b"PING\r\n", b"+PONG\r\n")
        for number in range(count):
            client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            client.settimeout(server.PATIENCE)
            client.bind((f"127.0.0.{100 + number // 5000}", 0))
            client.connect(("127.0.0.1", port))
            self.sockets.append(tls.wrap_socket(client) if tls else client)
        for client in self.sockets:
            client.send(self.question)
        for client in self.sockets:
            assert client.recv(4096).startswith(self.reply)

    def alive(self):
        """How many are still answered."""
        count = 0
        for client in self.sockets:
            try:
                client.send(self.question)
                count += client.recv(4096).startswith(self.reply)
            except OSError:
                pass
        return count

    def close(self):
        for client in self.sockets:
            client.close()


def certificate(folder):
    """What weir.yaml says of one that signs itself; it is read once."""
    cert, key = (str(pathlib.Path(folder) / name) for name in ("tls.pem", "tls.key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                    "/CN=localhost", "-days", "1", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return f"tls: {{cert: {cert}, key: {key}}}\n"


def tell(name, figures):
    print(f"  {name:22} {traffic.shown_us(figures)}", flush=True)


class Round:
    """One round of it; every figure and every fault is kept. It goes on until the log has had all of `wanted`."""

    def __init__(self, seconds, idle, abusive, *arguments, seed=None, wanted=(), http=False, tls=False):
        self.seconds, self.idle_count, self.abusive, self.wanted = seconds, idle, abusive, wanted
        self.seed = random.randrange(1 << 32) if seed is None else seed
        self.faults = []
        self.figures = {}
        traffic.raise_files(20000)
        self.http, self.tls = http, tls
        kind = "http" if http else "resp_tls" if tls else "resp"
        with tempfile.TemporaryDirectory(prefix="weir-abuse-") as folder:
            config = CONFIG + (certificate(folder) if tls else "")
            self.weir = server.Server("--max-clients", str(idle + 2 * abusive + 100), *arguments, config=config,
                                      also=() if kind == "resp" else (kind,))
        self.port = self.weir.ports[kind]

    def expect(self, what, got, wanted):
        if got != wanted:
            self.faults.append(f"{what}: {got}, not {wanted}")

    def clients(self):
        return int(traffic.info(self.control, "clients")["connected_clients"])

    def run(self):
        try:
            self.control = self.weir.connect()
            self.go()
            self.control.close()
            self.weir.stop()
        finally:
            self.weir.clean()
        return self

    def go(self):
        self.expect("clients at first", self.clients(), 1)
        files = self.weir.files()
        bystander = traffic.Steady(self.weir, "bystander", 1000, RATE, http=self.http)
        print(f"bystander: {RATE} requests a second, one at a time; seed {self.seed}")
        bystander.run(min(self.seconds / 8, 2))  # so that what is used first is there
        self.figures["alone"] = bystander.run(self.seconds / 4)
        tell("alone", self.figures["alone"])
        idle = self.add_idle()
        self.figures["idle"] = bystander.run(self.seconds / 4)
        tell(f"{self.idle_count} idle", self.figures["idle"])
        self.abuse(bystander, idle)
        self.figures["after"] = bystander.run(min(self.seconds / 8, 5))
        tell("after it", self.figures["after"])
        self.check_counts(bystander)
        idle.close()
        bystander.close()
        traffic.wait_until(lambda: self.clients() == 1, "all have left")
        self.expect("descriptors afterwards", self.weir.files(), files)
        self.figures["memory after"] = self.weir.memory()

    def add_idle(self):
        before = self.weir.memory()
        context = None
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        idle = Idle(self.port, self.idle_count, self.http, context)
        self.figures["idle bytes"] = (self.weir.memory() - before) / self.idle_count
        return idle

    def abuse(self, bystander, idle):
        here = self.clients()
        line = [sys.executable, str(pathlib.Path(__file__).with_name("abuser.py")), str(self.port),
                str(self.abusive), str(self.seed), "http" if self.http else "tls" if self.tls else "resp"]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
            crowd.stdout.readline()
            before = self.weir.memory()
            self.figures["abuse"] = bystander.run(self.seconds / 2)
            self.figures["abuse bytes"] = self.weir.memory() - before
            tell(f"{self.abusive} abusive", self.figures["abuse"])
            for why in self.wanted:
                self.weir.wait_line(f'event=closed .*why="{why}"')
            crowd.stdin.close()
            self.figures["crowd"] = json.loads(crowd.stdout.readline())
        self.expect("exit status of the crowd", crowd.returncode, 0)
        traffic.wait_until(lambda: self.clients() == here, "the abusive ones have left")
        self.expect("idle clients that are still answered", idle.alive(), self.idle_count)

    def check_counts(self, bystander):
        """Every request of the bystander was answered and counted, and those of the others add up."""
        said = traffic.info(self.control, "weir", "commandstats", "stats")
        own, take = said["policy_bystander"], said["cmdstat_weir.take"]
        self.expect("requests of the bystander that were counted", int(own["allowed"]) + int(own["refused"]),
                    bystander.answered)
        self.expect("errors that the bystander saw", sum(self.figures[name]["errors"] for name in ("idle", "abuse")), 0)
        self.expect("allowed + refused", int(said["allowed"]) + int(said["refused"]),
                    int(take["calls"]) - int(take["failed_calls"]))
        self.figures["requests"] = int(said["total_commands_processed"])
        self.figures["left out"] = int(said["log_lines_left_out"])

    def reasons(self):
        """Why connections were closed, as far as the log says."""
        found = collections.Counter()
        for line in self.weir.lines:
            why = re.search(r"event=closed .*why=(\"[^\"]*\"|\S+)", line)
            if why:
                found[why.group(1).strip('"')] += 1
        return found

    def report(self):
        figures, crowd = self.figures, self.figures["crowd"]
        print(f"an idle connection     {figures['idle bytes']:.0f} bytes of memory")
        print(f"the abusive ones       {figures['abuse bytes'] / 2**20:.1f} MiB while they were there; "
              f"{crowd['connected']} connections, {crowd.get('bytes said', 0) / 2**20:.0f} MiB said, "
              f"{crowd.get('bytes heard', 0) / 2**20:.0f} MiB heard")
        print(f"the bystander's p99    {figures['abuse']['p99_us'] / figures['alone']['p99_us']:.1f} times that of before")
        print(f"requests of all        {figures['requests']}")
        for why, count in self.reasons().most_common():
            print(f"closed, in the log     {count:6} {why}")
        print(f"lines not in the log   {figures['left out']}")
        for fault in self.faults:
            print(f"FAULT  {fault}")
        print("the server is harmed" if self.faults else "alive, and all counts add up")


def main():
    try:
        words = [word for word in sys.argv[1:] if word not in ("--http", "--tls")]
        seconds, idle, abusive = (float(word) for word in words + ["60", "10000", "1000"][len(words):])
    except ValueError:
        sys.exit("usage: abuse.py [--http | --tls] [SECONDS [IDLE [ABUSIVE]]]")
    done = Round(seconds, int(idle), int(abusive), http="--http" in sys.argv, tls="--tls" in sys.argv).run()
    done.report()
    sys.exit(1 if done.faults else 0)


if __name__ == "__main__":
    main()
