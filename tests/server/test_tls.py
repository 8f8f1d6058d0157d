#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""TLS: versions and ciphers, client certificates, resumption, reloads and watched files, and clients that speak it wrong.

Certificates are made by openssl, for this run alone.
"""

import base64
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
import unittest

import server

SEED = int(os.environ.get("WEIR_SEED", "1"))
CLI = shutil.which("redis-cli")
PYTHON = server.ROOT / "build" / "clients" / "python" / "bin" / "python3"
POLICIES = "policies: [{name: api, limits: 1000000/s}]\n"
USERS = """\
users:
  - {name: default, may: [look]}
  - {name: app, certificate: "CN=app,O=Example", may: [look, take]}
"""
HELLO = b"\x16\x03\x01"  # a record of a handshake


def openssl(*words, given=b""):
    done = subprocess.run(["openssl", *map(str, words)], input=given, capture_output=True, timeout=server.PATIENCE)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def user_of(client):
    return re.search(r" user=(\S+)", client.ask("CLIENT", "INFO")).group(1)


class Files:
    """A CA, and what it signs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.make_ca("ca", "weir tests")

    def path(self, name):
        return str(self.folder / name)

    def run(self, *words):
        status, text = openssl(*words)
        if status != 0:
            raise AssertionError(text)

    def key(self, name):
        self.run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.path(name + ".key"))

    def make_ca(self, name, subject):
        self.key(name)
        self.run("req", "-x509", "-key", self.path(name + ".key"), "-out", self.path(name + ".pem"), "-days", "2",
                 "-subj", f"/CN={subject}", "-addext", "basicConstraints=critical,CA:TRUE")

    def sign(self, name, subject="/CN=localhost", ca="ca", days=1):
        """name.key and name.pem; days < 0: it has expired."""
        self.key(name)
        self.run("req", "-new", "-key", self.path(name + ".key"), "-out", self.path(name + ".csr"), "-subj", subject)
        names = self.folder / (name + ".names")
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.run("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path(ca + ".pem"), "-CAkey",
                 self.path(ca + ".key"), "-out", self.path(name + ".pem"), "-days", str(days), "-extfile", names)


class TlsTest(server.ServerTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="weir-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.files = Files(folder.name)
        cls.files.sign("server")
        cls.files.sign("app", "/O=Example/CN=app")
        cls.files.sign("other", "/O=Example/CN=other")

    def tls(self, cert="server", key=None, clients="none", more=""):
        return (f"tls: {{cert: {self.files.path(cert + '.pem')}, key: {self.files.path((key or cert) + '.key')}, "
                f"ca: {self.files.path('ca.pem')}, clients: {clients}}}\n" + POLICIES + more)

    def begin(self, *arguments, also=("resp_tls",), **settings):
        return self.start(*arguments, config=self.tls(**settings), also=also)

    def context(self, cert=None, version=None, ca="ca"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.files.path(ca + ".pem"))
        if cert:
            context.load_cert_chain(self.files.path(cert + ".pem"), self.files.path(cert + ".key"))
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def connect(self, weir, *, kind="resp_tls", version=2, **settings):
        client = server.Client(("127.0.0.1", weir.ports[kind]), version, tls=self.context(**settings))
        self.addCleanup(client.close)
        return client

    def raw(self, weir):
        """To the port of TLS, without it."""
        client = server.Client(("127.0.0.1", weir.ports["resp_tls"]))
        self.addCleanup(client.close)
        return client

    def s_client(self, weir, *words, kind="resp_tls", given=b""):
        return openssl("s_client", "-connect", f"127.0.0.1:{weir.ports[kind]}", "-CAfile", self.files.path("ca.pem"),
                       *words, given=given)[1]

    def assert_serves(self, weir):
        with server.Client(("127.0.0.1", weir.ports["resp_tls"]), tls=self.context()) as client:
            self.assertEqual(client.ask("PING"), "PONG")


class Protocol(TlsTest):
    def test_versions_and_ciphers(self):
        weir = self.begin(also=("resp_tls", "https"))
        for words, good in ((["-tls1_3"], "TLSv1.3"), (["-tls1_2"], "TLSv1.2"),
                            (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], None), (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], None),
                            (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], "TLSv1.2"),
                            (["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"], "TLSv1.2"),
                            (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"], None),  # CBC
                            (["-tls1_2", "-cipher", "AES128-GCM-SHA256"], None)):      # a key that is kept
            with self.subTest(words):
                text = self.s_client(weir, *words)
                self.assertEqual("Verify return code: 0 (ok)" in text and "Cipher is (NONE)" not in text, good is not None, text)
                if good:
                    self.assertIn(good, text)
        self.assertIn("Compression: NONE", self.s_client(weir, "-tls1_2"))
        self.assertIn("ALPN protocol: http/1.1", self.s_client(weir, "-alpn", "h2,http/1.1", kind="https"))
        self.assertIn("no application protocol", self.s_client(weir, "-alpn", "h2", kind="https"))
        self.assertIn("No ALPN negotiated", self.s_client(weir, "-alpn", "h2,http/1.1"))
        self.assertIn("no renegotiation", self.s_client(weir, "-tls1_2", given=b"R\n"))
        self.assert_serves(weir)

    def test_both_versions_of_the_redis_protocol_and_pipelines(self):
        weir = self.begin()
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            client = server.Client(("127.0.0.1", weir.ports["resp_tls"]), 3, tls=self.context(version=version))
            with client:
                self.assertTrue(client.ask("WEIR.TAKE", "api", "k")["allowed"])
                self.assertEqual(client.pipeline(*[["ECHO", i] for i in range(1000)]), [str(i) for i in range(1000)])
                client.raw(server.encode("ECHO", "x" * 60000))  # more than a record
                self.assertEqual(client.read(), "x" * 60000)

    @unittest.skipUnless(CLI, "there is no redis-cli")
    def test_redis_cli(self):
        weir = self.begin()
        done = subprocess.run([CLI, "--tls", "--cacert", self.files.path("ca.pem"), "-p", str(weir.ports["resp_tls"]), "PING"],
                              capture_output=True, text=True, timeout=server.PATIENCE)
        self.assertEqual((done.stdout, done.stderr), ("PONG\n", ""))

    @unittest.skipUnless(PYTHON.exists(), "redis-py is not installed; script/test-clients does that")
    def test_redis_py(self):
        weir = self.begin(clients="required", more=USERS)
        code = ("import redis, sys\n"
                "url, ca, cert, key = sys.argv[1:]\n"
                "server = redis.Redis.from_url(url, ssl_ca_certs=ca, ssl_certfile=cert, ssl_keyfile=key)\n"
                "print(server.execute_command('WEIR.TAKE', 'api', 'k')[b'allowed'])\n")
        done = subprocess.run([PYTHON, "-c", code, f"rediss://localhost:{weir.ports['resp_tls']}",
                               *map(self.files.path, ("ca.pem", "app.pem", "app.key"))], capture_output=True, text=True,
                              timeout=server.PATIENCE)
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))

    def test_https(self):
        """Requests one after another and all at once; who shows a certificate is its user here, too."""
        weir = self.begin(also=("https", "resp_tls"), clients="optional", more=USERS)
        for cert, status in ("app", 200), (None, 401):
            link = http.client.HTTPSConnection("localhost", weir.ports["https"], timeout=server.PATIENCE,
                                               context=self.context(cert))
            self.addCleanup(link.close)
            for _ in range(3):
                link.request("POST", "/v1/take", json.dumps({"policy": "api", "key": "k"}),
                             {"Content-Type": "application/json"})
                answer = link.getresponse()
                self.assertEqual(answer.status, status, answer.read())
                answer.read()
        with self.connect(weir, kind="https", cert="app") as client:
            client.raw(b"GET /v1/take/api/k HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
            client.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertEqual(client.rest().count(b"HTTP/1.1 200 OK\r\n"), 501)

    def test_sessions_are_resumed(self):
        weir = self.begin()
        for version in "-tls1_2", "-tls1_3":
            path = self.files.path("session" + version)
            self.assertIn("New, ", self.s_client(weir, version, "-sess_out", path, "-ign_eof", given=b"QUIT\r\n"))
            self.assertIn("Reused, ", self.s_client(weir, version, "-sess_in", path, "-ign_eof", given=b"QUIT\r\n"))

    def test_a_resumed_session_is_the_user_of_its_certificate(self):
        weir = self.begin(clients="required", more=USERS)
        context = self.context("app", version=ssl.TLSVersion.TLSv1_2)
        first = server.Client(("127.0.0.1", weir.ports["resp_tls"]), tls=context)
        self.addCleanup(first.close)
        plain = socket.create_connection(("127.0.0.1", weir.ports["resp_tls"]), server.PATIENCE)
        with context.wrap_socket(plain, server_hostname="localhost", session=first.socket.session) as second:
            self.assertTrue(second.session_reused)
            second.sendall(b"CLIENT INFO\r\n")
            self.assertIn(b" user=app ", second.recv(4096))


class Starting(TlsTest):
    def refuse(self, config, *arguments):
        weir = self.start("--resp-tls", "127.0.0.1:0", *arguments, config=config, ready=False)
        self.assertEqual(weir.wait(), 2)
        return "\n".join(weir.lines)

    def test_files_that_are_wrong(self):
        path = self.files.path
        self.assertIn("resp_tls needs a certificate: tls: {cert: FILE, key: FILE} in weir.yaml", self.refuse(POLICIES))
        self.assertIn(f"tls: key {path('app.key')} does not belong to the certificate", self.refuse(self.tls(key="app")))
        self.assertIn(f"tls: cert {path('none.pem')} cannot be read: No such file", self.refuse(self.tls("none")))
        self.assertIn("key is missing", self.refuse(f"tls: {{cert: {path('server.pem')}}}\n"))
        self.assertIn("clients: required needs ca", self.refuse(
            f"tls: {{cert: {path('server.pem')}, key: {path('server.key')}, clients: required}}\n"))
        self.assertIn("is no private key in PEM without a passphrase",
                      self.refuse(f"tls: {{cert: {path('server.pem')}, key: {path('server.pem')}}}\n"))
        self.assertIn("is no certificate in PEM", self.refuse(f"tls: {{cert: {path('app.key')}, key: {path('app.key')}}}\n"))
        self.assertIn("is no plain file", self.refuse(f"tls: {{cert: /dev/zero, key: {path('server.key')}}}\n"))
        self.files.run("pkcs8", "-topk8", "-in", path("server.key"), "-out", path("locked.key"), "-passout", "pass:x")
        self.assertIn("is no private key in PEM without a passphrase", self.refuse(self.tls(key="locked")))

    def test_a_password_is_needed_elsewhere(self):
        self.assertIn("can be reached from elsewhere and there is no password",
                      self.refuse(self.tls(), "--resp-tls", "0.0.0.0:0"))

    def test_weir_check_says_it_before(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(self.tls(key="app"))
            file.flush()
            done = subprocess.run([server.WEIR, "check", file.name], capture_output=True, text=True,
                                  env=server.environment(WEIR_URL="redis://127.0.0.1:1"), timeout=server.PATIENCE)
        self.assertIn("does not belong to the certificate", done.stderr)
        self.assertEqual(done.returncode, 2)


class ClientCertificates(TlsTest):
    def test_who_asked_as_another_user_is_the_one_of_its_certificate_again(self):
        weir = self.begin(also=("https",), clients="optional",
                          more=USERS + "  - {name: bob, password: bob-secret, may: [look]}\n")
        link = http.client.HTTPSConnection("localhost", weir.ports["https"], timeout=server.PATIENCE,
                                           context=self.context("app"))
        self.addCleanup(link.close)
        bob = {"Authorization": "Basic " + base64.b64encode(b"bob:bob-secret").decode()}
        got = []
        for fields in {}, bob, {}:
            link.request("GET", "/v1/take/api/k", headers=fields)
            answer = link.getresponse()
            got.append((answer.status, len(answer.read()) > 0))
        self.assertEqual([status for status, _ in got], [200, 403, 200])

    def whoami(self, weir, **settings):
        """Who it is; or what went wrong."""
        try:
            with server.Client(("127.0.0.1", weir.ports["resp_tls"]), tls=self.context(**settings)) as client:
                return user_of(client)
        except (OSError, server.Closed) as error:
            return error

    def test_none(self):
        weir = self.begin(more=USERS)
        self.assertEqual(self.whoami(weir), "default")
        self.assertEqual(self.whoami(weir, cert="app"), "default")  # nobody asks for it

    def test_optional(self):
        weir = self.begin(clients="optional", more=USERS)
        self.assertEqual(self.whoami(weir), "default")
        self.assertEqual(self.whoami(weir, cert="app"), "app")
        self.assertEqual(self.whoami(weir, cert="other"), "default")

    def test_required(self):
        weir = self.begin(clients="required", more=USERS)
        self.files.make_ca("elsewhere", "weir tests")  # the same name
        self.files.sign("forged", "/O=Example/CN=app", ca="elsewhere")
        self.files.sign("expired", "/O=Example/CN=app", days=-1)
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            with self.subTest(version):
                self.assertIsInstance(self.whoami(weir, version=version), (OSError, server.Closed))
                self.assertEqual(self.whoami(weir, cert="app", version=version), "app")
                self.assertEqual(self.whoami(weir, cert="other", version=version), "default")
                self.assertIsInstance(self.whoami(weir, cert="forged", version=version), (OSError, server.Closed))
                self.assertIsInstance(self.whoami(weir, cert="expired", version=version), (OSError, server.Closed))
        weir.wait_line("event=closed .*why=\"certificate has expired\"")
        weir.wait_line("event=closed .*why=\"peer did not return a certificate\"")

    def test_a_user_with_a_certificate_has_no_password(self):
        weir = self.begin(clients="optional", more=USERS)
        with self.connect(weir) as client:
            for password in "", "CN=app,O=Example":
                self.assertIn("WRONGPASS", client.ask("AUTH", "app", password))

    def test_who_loses_its_certificate_is_logged_out(self):
        weir = self.begin(clients="optional", more=USERS)
        client = self.connect(weir, cert="app")
        self.assertTrue(client.ask("WEIR.TAKE", "api", "k"))
        weir.configure(self.tls(clients="optional", more=USERS))
        weir.signal(signal.SIGHUP)
        weir.wait_line("event=reloaded")
        self.assertEqual(user_of(client), "app")  # nothing has changed
        weir.configure(self.tls(clients="optional", more=USERS.replace("CN=app", "CN=other")))
        weir.signal(signal.SIGHUP)
        weir.wait_line("its password or rights were changed")
        self.assertEqual(client.rest(), b"")
        self.assertEqual(self.whoami(weir, cert="app"), "default")
        self.assertEqual(self.whoami(weir, cert="other"), "app")

    def test_users_have_their_places(self):
        """A client that logs in by a certificate counts as one of that user."""
        weir = self.begin(clients="optional", more="clients: {per_user: 2}\n" + USERS)
        clients = [self.connect(weir, cert="app") for _ in range(2)]
        for client in clients:
            self.assertEqual(user_of(client), "app")
        self.assertIsInstance(self.whoami(weir, cert="app"), (OSError, server.Closed))
        weir.wait_line("event=client-refused .*user=app")


class Reloading(TlsTest):
    def serial(self, weir):
        with self.connect(weir) as client:
            return client.socket.getpeercert()["serialNumber"]

    def test_a_certificate_changes_under_open_connections(self):
        self.files.sign("renewed")
        weir = self.begin()
        client = self.connect(weir)
        before, subject = self.serial(weir), client.socket.getpeercert()["serialNumber"]
        self.assertEqual(before, subject)
        weir.configure(self.tls("renewed"))
        self.assertEqual(client.ask("WEIR.RELOAD"), "OK")
        self.assertNotEqual(self.serial(weir), before)
        self.assertEqual(client.ask("PING"), "PONG")

    def test_a_broken_file_keeps_what_was(self):
        weir = self.begin()
        client, before = self.connect(weir), self.serial(weir)
        weir.configure(self.tls(key="app") + "  \n")
        self.assertIn("does not belong to the certificate", client.ask("WEIR.RELOAD"))
        weir.configure(POLICIES)
        self.assertIn("tls: is missing, and clients connect with TLS", client.ask("WEIR.RELOAD"))
        weir.configure(self.tls("app").replace(POLICIES, ""))  # the certificate is good, the rest is not
        self.assertIn("it names no policies", client.ask("WEIR.RELOAD"))
        weir.configure(self.tls() + "watch: sometimes\n")
        self.assertIn("write none or files", client.ask("WEIR.RELOAD"))
        self.assertEqual(self.serial(weir), before)
        self.assertEqual(client.ask("PING"), "PONG")
        weir.wait_line("event=reload-failed .*does not belong to the certificate")

    def test_watched_files_as_kubernetes_swaps_them(self):
        """..data is a link to a directory, and the files are links through it."""
        with tempfile.TemporaryDirectory(prefix="weir-k8s-") as folder:
            mount = pathlib.Path(folder)

            def publish(name, cert, config):
                (mount / name).mkdir()
                for end in "pem", "key":
                    shutil.copy(self.files.path(f"{cert}.{end}"), mount / name / f"tls.{end}")
                (mount / name / "weir.yaml").write_text(config)
                os.symlink(name, mount / "..next")
                os.rename(mount / "..next", mount / "..data")

            self.files.sign("swapped")
            config = "watch: files\ntls: {cert: tls.pem, key: tls.key}\n"
            publish("..1", "server", config + POLICIES)
            for name in "tls.pem", "tls.key", "weir.yaml":
                os.symlink(f"..data/{name}", mount / name)
            weir = self.start("--config", str(mount / "weir.yaml"), also=("resp_tls",))
            client, before = self.connect(weir), self.serial(weir)
            publish("..2", "swapped", config + "policies: [{name: later, limits: 1/h}]\n")
            weir.wait_line("event=files-changed")
            weir.wait_line("event=reloaded")
            self.assertNotEqual(self.serial(weir), before)
            self.assertTrue(client.ask("WEIR.TAKE", "later", "k"))
            log = len(weir.lines)
            (mount / "..2" / "weir.yaml").write_text("policies: nonsense\n")
            weir.wait_line("event=reload-failed", after=log)
            self.assertEqual(client.ask("PING"), "PONG")


class Outgoing(TlsTest):
    """weir itself as the client: its commands, and members of a fleet."""

    def weir(self, *words):
        done = subprocess.run([server.WEIR, *words], capture_output=True, text=True, env=server.environment(),
                              timeout=server.PATIENCE)
        return done.stdout + done.stderr

    def test_commands(self):
        weir = self.begin(clients="optional", more=USERS)
        ca, cert, key = (("--" + name, self.files.path(file))
                         for name, file in (("cacert", "ca.pem"), ("cert", "app.pem"), ("key", "app.key")))
        url = f"rediss://localhost:{weir.ports['resp_tls']}"
        take = ("take", "api", "k", "-s")
        self.assertIn("allowed", self.weir(*take, url, *ca, *cert, *key))
        self.assertIn("allowed", self.weir(*take, url, "--insecure", *cert, *key))
        self.assertIn("allowed", self.weir(*take, url.replace("localhost", "127.0.0.1"), *ca, *cert, *key))
        self.assertIn("NOPERM", self.weir(*take, url, *ca))
        for words, told in (((url,), "TLS: unable to get local issuer certificate; --cacert FILE names its CA"),
                            ((url, "--cacert", self.files.path("app.pem")), "TLS: "),
                            ((url, *ca, *cert), "key is missing"),
                            ((url, "--cacert", "/nowhere"), "tls: ca /nowhere cannot be read: No such file"),
                            ((f"rediss://127.0.0.1:{weir.port}", *ca), "wrong version number; is TLS spoken on that port?"),
                            ((weir.url(), *ca), "are for rediss://, not for redis://")):
            with self.subTest(words):
                self.assertIn(told, self.weir(*take, *words))

    def test_an_answer_of_many_records(self):
        """What OpenSSL has read and not handed out yet is read before anything is waited for."""
        weir = self.begin()
        with self.connect(weir, version=3) as client:
            client.pipeline(*[["WEIR.POLICY", "SET", f"p{i}", "100/s burst=200 name=" + "n" * 40] for i in range(250)])
        names = self.weir("policy", "list", "--json", "-s", f"rediss://localhost:{weir.ports['resp_tls']}",
                          "--cacert", self.files.path("ca.pem"))
        self.assertEqual(names.count("n" * 40), 250)

    def lease(self, coordinator):
        """A server that leases from there; what one take says."""
        node = self.start(config="policies:\n  - name: egress\n    limits: 1000/300d algo=quota\n"
                          f"    fleet: {{coordinator: \"{coordinator}\", base: 10, wait: 10s}}\n")
        with node.connect(version=3) as client:
            return client.ask("WEIR.TAKE", "egress", "k")

    def test_a_fleet_of_weir_servers(self):
        root = self.start(config=self.tls().replace(POLICIES, """\
policies:
  - name: egress
    limits: 1000/300d algo=quota
    fleet: {coordinator: "local:", base: 10}
"""), also=("resp_tls",))
        at = f"localhost:{root.ports['resp_tls']}?cacert={self.files.path('ca.pem')}"
        self.assertTrue(self.lease("weirs://" + at)["allowed"])
        shown = self.weir("quota", "show", "egress", "-c", "weirs://" + at)
        self.assertIn("1 000", shown)
        self.assertIn("weir quota: ", self.weir("quota", "show", "egress", "-c", f"weirs://localhost:{root.ports['resp_tls']}"))

    @unittest.skipUnless(shutil.which("redis-server"), "there is no redis-server")
    def test_a_fleet_on_redis(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="weir-redis-") as folder:
            redis = subprocess.Popen(
                ["redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                 "--tls-cert-file", self.files.path("server.pem"), "--tls-key-file", self.files.path("server.key"),
                 "--tls-ca-cert-file", self.files.path("ca.pem")], stdout=subprocess.PIPE, text=True)
            try:
                for line in redis.stdout:
                    if "Ready to accept connections" in line:
                        break
                else:
                    self.skipTest("this redis-server speaks no TLS")
                files = "&".join(f"{name}={self.files.path(file)}" for name, file in
                                 (("cacert", "ca.pem"), ("cert", "app.pem"), ("key", "app.key")))
                url = f"rediss://127.0.0.1:{port}"
                self.assertIn("egress", self.weir("quota", "create", "egress", "1000/300d", "-c", f"{url}?{files}"))
                self.assertTrue(self.lease(f"{url}?{files}")["allowed"])
                self.assertIn("TLS: ", self.weir("quota", "show", "egress", "-c", f"{url}?{files.partition('&')[2]}"))
                self.assertIn("TLS: ", self.weir("quota", "show", "egress", "-c", f"{url}?{files.partition('&')[0]}"))
            finally:
                redis.kill()
                redis.communicate()


class Hostile(TlsTest):
    def test_what_is_no_handshake(self):
        weir = self.begin()
        rng = random.Random(SEED)
        hostile = [b"PING\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 100, HELLO + b"\xff\xff" + b"\x01" * 100,
                   b"\x17\x03\x03\x00\x05hello", b"\x80\x2e\x01\x00\x02"]
        hostile += [HELLO + struct.pack(">H", 200) + b"\x01\x00\x00\xc4" + rng.randbytes(196) for _ in range(20)]
        hostile += [rng.randbytes(rng.randrange(5, 2000)) for _ in range(20)]
        for data in hostile:
            with self.subTest(seed=SEED, data=data[:20]):
                client = self.raw(weir)
                client.raw(data)
                client.finish()
                client.rest()  # perhaps an alert, then the end
                client.close()
        self.assert_serves(weir)

    def hello(self):
        """The first flight of a client."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read(), tls, incoming, outgoing

    def shake(self, weir):
        """A handshake by hand, so that a test sees each byte."""
        data, tls, incoming, outgoing = self.hello()
        client = self.raw(weir)
        client.raw(data)
        while True:
            try:
                tls.do_handshake()
                return tls, incoming, outgoing, client
            except ssl.SSLWantReadError:
                incoming.write(client.socket.recv(65536))

    def test_a_handshake_that_never_ends(self):
        weir = self.begin("--login-timeout-ms", "100")
        client = self.connect(weir)
        first, _, _, _ = self.hello()
        for data in b"", first[:50], first:
            with self.subTest(len(data)):
                log = len(weir.lines)
                other = self.raw(weir)
                other.raw(data)
                other.rest()
                weir.wait_line("did not finish the TLS handshake", after=log)
        self.assertEqual(client.ask("PING"), "PONG")  # who has finished it may stay

    def test_unfinished_handshakes_leave_room(self):
        """As unauthenticated clients they give way to those who come later."""
        weir = self.begin("--max-clients", "32")
        idle = [self.raw(weir) for _ in range(64)]
        self.assert_serves(weir)
        for client in idle:
            client.close()

    def test_many_handshakes_at_once(self):
        weir = self.begin()
        flights = []
        for _ in range(50):
            data, tls, incoming, outgoing = self.hello()
            client = self.raw(weir)
            flights.append((client, tls, incoming, outgoing))
            client.raw(data)
        for client, tls, incoming, outgoing in flights:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    incoming.write(client.socket.recv(65536))
            tls.write(b"PING\r\n")
            client.raw(outgoing.read())
        for client, tls, incoming, _ in flights:
            while True:
                try:
                    self.assertEqual(tls.read(100), b"+PONG\r\n")
                    break
                except ssl.SSLWantReadError:
                    incoming.write(client.socket.recv(65536))

    def test_records_that_are_cut_off_or_changed(self):
        weir = self.begin()
        for spoil in (lambda data: data[:-1], lambda data: data[:7], lambda data: data[:-1] + bytes([data[-1] ^ 1])):
            tls, _, outgoing, client = self.shake(weir)
            tls.write(b"WEIR.TAKE api cut 7\r\n")
            finished, record = outgoing.read(), None
            end = finished.rindex(b"\x17\x03\x03")  # the last record has the request
            finished, record = finished[:end], finished[end:]
            client.raw(finished + spoil(record))
            client.finish()
            client.rest()
        with self.connect(weir, version=3) as client:  # nothing of it was run
            self.assertEqual(client.ask("WEIR.PEEK", "api", "cut")["remaining"], 1000000)
        weir.wait_line("event=closed .*bad record mac")

    def test_the_end_of_what_is_asked(self):
        """With a goodbye or without one: all is answered before."""
        weir = self.begin()
        asked = b"".join(server.encode("ECHO", i) for i in range(5000))
        want = b"".join(b"$%d\r\n%d\r\n" % (len(str(i)), i) for i in range(5000))
        client = self.connect(weir)
        client.raw(asked)
        socket.socket.shutdown(client.socket, socket.SHUT_WR)
        self.assertEqual(client.rest(), want)
        tls, incoming, outgoing, raw = self.shake(weir)
        tls.write(asked)
        with self.assertRaises(ssl.SSLWantReadError):
            tls.unwrap()  # close_notify is in the last of these bytes
        raw.raw(outgoing.read())
        incoming.write(raw.rest())
        got = b""
        with self.assertRaises(ssl.SSLZeroReturnError):  # the server's own goodbye
            while True:
                got += tls.read(65536)
        self.assertEqual(got, want)
        self.assert_serves(weir)

    def test_pipelines_of_a_mebibyte_and_slow_readers(self):
        weir = self.begin()
        rng = random.Random(SEED)
        for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
            context = self.context(version=version)
            plain = socket.socket()
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            plain.settimeout(server.PATIENCE)
            plain.connect(("127.0.0.1", weir.ports["resp_tls"]))
            tls = context.wrap_socket(plain, server_hostname="localhost")
            self.addCleanup(tls.close)
            words, total, want = [], 0, []
            while total < 1 << 20:
                text = "x" * rng.randrange(1, 3000)
                words.append(server.encode("ECHO", text))
                want.append(b"$%d\r\n%s\r\n" % (len(text), text.encode()))
                total += len(words[-1])
            want, asked, got = b"".join(want), b"".join(words), b""
            tls.setblocking(False)
            deadline = time.monotonic() + server.PATIENCE
            while len(got) < len(want):
                self.assertLess(time.monotonic(), deadline, f"seed {SEED}")
                try:
                    if asked:
                        asked = asked[tls.send(asked[:rng.randrange(1, 70000)]):]
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    pass
                try:
                    if not asked or rng.random() < 0.05:
                        got += tls.recv(rng.randrange(1, 40000))
                except ssl.SSLWantReadError:
                    pass
            self.assertEqual(got, want)

    def test_a_reader_that_never_reads_is_closed(self):
        weir = self.begin("--stuck-ms", "200")
        client = self.connect(weir)
        client.socket.setblocking(False)
        request = server.encode("ECHO", "x" * 60000)
        deadline = time.monotonic() + server.PATIENCE
        try:
            while time.monotonic() < deadline:
                try:
                    client.socket.send(request)
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    if any("does not read its answers" in line for line in weir.lines):
                        break
        except OSError:
            pass
        weir.wait_line("does not read its answers")
        self.assert_serves(weir)

    def test_a_flood_of_key_updates_holds_nobody_up(self):
        """openssl s_client sends one for each K; each wants an answer."""
        weir = self.begin()
        text = self.s_client(weir, "-tls1_3", given=b"K\n" * 200)
        self.assertIn("KEYUPDATE", text)
        self.assert_serves(weir)

    def test_a_server_that_stops_says_goodbye(self):
        weir = self.begin()
        client = self.connect(weir)
        self.assertEqual(client.ask("PING"), "PONG")
        weir.signal(signal.SIGTERM)
        self.assertEqual(client.socket.recv(10), b"")  # close_notify: Python raises an error without one
        self.assertEqual(weir.wait(), 0)


if __name__ == "__main__":
    server.main()
