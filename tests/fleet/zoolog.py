# SPDX-License-Identifier: MIT
"""The transaction logs of a ZooKeeper: what was decided, in which order, when by the leader's wall clock. Read from the
files that its members leave, so it is nobody's account but ZooKeeper's own.

    for transaction in read([folder / "version-2" for each member]):
        transaction.zxid, transaction.time_ms, transaction.writes    # [("set", path, data), ("create", ...), ...]
"""

import struct
from typing import NamedTuple

CREATES = {1, 15, 19, 21}  # create, create2, container, ttl
DELETE, SET, CHECK, MULTI, ERROR = 2, 5, 13, 14, -1


class Transaction(NamedTuple):
    zxid: int
    time_ms: int
    writes: list


class Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def number(self, form):
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return value

    def bytes(self):
        size = self.number("i")
        self.at += max(size, 0)
        return self.data[self.at - size:self.at] if size > 0 else b""


def writes_of(kind, reader):
    if kind == MULTI:
        parts = [(reader.number("i"), Reader(reader.bytes())) for _ in range(reader.number("i"))]
        if any(inner == ERROR for inner, _ in parts):
            return []  # one of them was refused, so none was done; those before it are logged as if they had been
        return [write for inner, part in parts for write in writes_of(inner, part)]
    if kind in CREATES:
        return [("create", reader.bytes().decode(), reader.bytes())]
    if kind == SET:
        return [("set", reader.bytes().decode(), reader.bytes())]
    if kind == DELETE:
        return [("delete", reader.bytes().decode(), b"")]
    return []  # sessions, errors, checks: they change nothing


def read_file(path):
    data = path.read_bytes()
    if data[:4] != b"ZKLG":
        return
    reader = Reader(data, 16)  # magic, version, database
    while reader.at + 12 <= len(data):
        reader.number("q")  # the checksum
        size = reader.number("i")
        if size <= 0 or reader.at + size >= len(data) or data[reader.at + size] != 0x42:
            return  # room that was made in advance; or it was being written when it was killed
        entry = Reader(data[reader.at:reader.at + size])
        reader.at += size + 1
        entry.number("q"), entry.number("i")  # the session, and its count
        zxid, time_ms, kind = entry.number("q"), entry.number("q"), entry.number("i")
        yield Transaction(zxid, time_ms, writes_of(kind, entry))


def read(folders):
    """Of all members together, in order: one that was sent everything anew has not logged it."""
    found = {}
    for folder in folders:
        for path in folder.glob("log.*"):
            for transaction in read_file(path):
                found[transaction.zxid] = transaction
    return [found[zxid] for zxid in sorted(found)]
