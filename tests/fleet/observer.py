# SPDX-License-Identifier: MIT
"""Looks at servers again and again, beside everything else: one thread and one connection for each.

    Observer([address, ...], ask, note)     # note(i, before_ns, after_ns, reply) for each reply to ask(client, i)

A server that does not answer is asked again. What it would have said is not missed: it decides nothing meanwhile."""

import threading
import time

import server
from crew import boot_ns

EVERY_S = 0.005


class Observer:
    def __init__(self, addresses, ask, note):
        self.addresses, self.ask, self.note = addresses, ask, note
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self.watch, args=(i,), daemon=True) for i in range(len(addresses))]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join(5)

    def watch(self, i):
        client = None
        while not self.ending.is_set():
            try:
                if client is None:
                    client = server.Client(self.addresses[i])
                    client.socket.settimeout(1)
                before = boot_ns()
                reply = self.ask(client, i)
                with self.lock:
                    self.note(i, before, boot_ns(), reply)
            except (OSError, server.Closed):
                if client:
                    client.close()
                client = None
            time.sleep(EVERY_S)
        if client:
            client.close()
