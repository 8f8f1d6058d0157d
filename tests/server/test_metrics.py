#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is scraped: counts that clients can confirm, read by the real prometheus; alert rules, dashboard and document."""

import collections
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import server
from http_client import HttpClient

sys.path.append("/usr/lib/python3/dist-packages")  # where Debian has it, whichever python3 this is
from prometheus_client import parser as text_parser  # noqa: E402
from prometheus_client.openmetrics import parser as open_parser  # noqa: E402

DIST = server.ROOT / "dist"
RULES = DIST / "prometheus" / "weir.rules.yml"
POLICIES = """
drain: 1ms  # whoever has asked /readyz is told of the end for no longer
policies:
  - {name: api, limits: %s, overrides: [{key: big, limits: 30/h}, {key: "part-*", limits: 6/h name=part}]}
  - {name: shadow, limits: 3/h, mode: shadow}
  - {name: deep, limits: [5/m name=minute, 20/h name=hour]}
"""
FLEET = """
  - {name: egress, limits: [1000/m algo=quota], fleet: {coordinator: "weir://127.0.0.1:%d", base: 50}}
"""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read_samples(families):
    """Every series with its value. A counter that a parser calls otherwise has the name that was scraped."""
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families for sample in family.samples}


def fetch(port, path, **fields):
    client = HttpClient(port)
    try:
        return client.get(path, **fields)
    finally:
        client.close()


def scrape(port, openmetrics=False):
    got = fetch(port, "/metrics", **({"Accept": OPEN} if openmetrics else {}))
    if (got.status, got["content-type"]) != (200, OPEN if openmetrics else TEXT):
        raise AssertionError(f"{got.status} {got['content-type']}")
    parser = open_parser if openmetrics else text_parser
    return read_samples(parser.text_string_to_metric_families(got.text))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class MetricsTest(server.ServerTest):
    def start_http(self, *arguments, config):
        return self.start(*arguments, config=config, also=("http",))

    def traffic(self, weir, seed):
        traffic = Traffic(weir, seed)
        self.addCleanup(traffic.close)
        return traffic


class Traffic:
    """Asks by both protocols, and remembers what it was answered."""

    def __init__(self, weir, seed):
        self.random = random.Random(seed)
        self.resp, self.http = weir.connect(version=3), HttpClient(weir.ports["http"])
        self.decisions, self.refused = collections.Counter(), collections.Counter()

    def close(self):
        self.resp.close()
        self.http.close()

    def ask(self, count):
        for _ in range(count):
            policy = self.random.choice(("api", "shadow", "deep"))
            key, n = self.random.choice(("a", "b", "big", "part-1", "part-2")), self.random.randint(1, 3)
            protocol = self.random.choice(("resp", "http"))
            if protocol == "resp":
                got = self.resp.ask("WEIR.TAKE", policy, key, n)
            else:
                got = self.http.get(f"/v1/take/{policy}/{key}?n={n}").json
            result = ("shadow_refused" if got["reason"] == "shadow" else "allowed" if got["allowed"] else "refused")
            self.decisions[policy, protocol, result] += 1
            if result == "refused":
                self.refused[policy, got["limit"]] += 1

    def differences(self, samples, gone=()):
        """What was scraped and is not what was answered. Limits that are `gone` have no series any more."""
        wrong = []
        for policy in ("api", "shadow", "deep"):
            for protocol in ("resp", "http"):
                for result in ("allowed", "refused", "shadow_refused", "unavailable"):
                    labels = (("policy", policy), ("protocol", protocol), ("result", result))
                    value = samples.get(("weir_decisions_total", labels))
                    if value != self.decisions[policy, protocol, result]:
                        wrong.append((labels, value, self.decisions[policy, protocol, result]))
        for (policy, limit), count in self.refused.items():
            value = samples.get(("weir_refused_total", (("limit", limit), ("policy", policy))))
            if value != (None if limit in gone else count):
                wrong.append((policy, limit, value, count))
        return wrong


class Scrape(MetricsTest):
    def test_counters_are_what_clients_were_answered_also_after_a_reload(self):
        seed = random.randrange(2 ** 32)
        weir = self.start_http(config=POLICIES % "[10/h, 12/d name=day]")
        traffic = self.traffic(weir, seed)
        with self.subTest(seed=seed):
            traffic.ask(300)
            for openmetrics in (False, True):
                self.assertEqual(traffic.differences(scrape(weir.ports["http"], openmetrics)), [])
            weir.configure(POLICIES % "[11/h, 12/d name=day]")
            self.assertEqual(traffic.resp.ask("WEIR.RELOAD")[:2], "OK")
            traffic.ask(300)
            samples = scrape(weir.ports["http"])
            self.assertEqual(traffic.differences(samples, gone=("10/h",)), [])
            self.assertEqual(samples["weir_config_reloads_total", (("result", "success"),)], 1)
            self.assertGreater(samples["weir_decision_duration_seconds_count", (("protocol", "http"),)], 200)

    def test_a_policy_that_was_removed_has_no_series(self):
        weir = self.start_http(config=POLICIES % "10/h")
        client = weir.connect(version=3)
        self.addCleanup(client.close)
        client.ask("WEIR.TAKE", "deep", "k")
        client.ask("WEIR.POLICY", "DEL", "deep")
        self.assertNotIn('policy="deep"', fetch(weir.ports["http"], "/metrics").text)

    def test_promtool_finds_nothing_to_complain_about(self):
        weir = self.start_http("--data", "data", config=POLICIES % "10/h" + FLEET % free_port())
        text = fetch(weir.ports["http"], "/metrics").body
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=20)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))


class Health(MetricsTest):
    def test_probes_are_answered_without_a_login(self):
        weir = self.start_http(config="users: [{name: app, password: s3cret, may: all}]\n" + POLICIES % "10/h")
        for path in ("/livez", "/healthz", "/readyz"):
            self.assertEqual(fetch(weir.ports["http"], path).status, 200, path)
        self.assertEqual(fetch(weir.ports["http"], "/readyz").json["reasons"], [])
        self.assertEqual(fetch(weir.ports["http"], "/metrics").status, 401)

    def test_a_coordinator_that_is_away_is_no_reason(self):
        weir = self.start_http(config=POLICIES % "10/h" + FLEET % free_port())
        self.assertEqual(fetch(weir.ports["http"], "/readyz").status, 200)
        samples = scrape(weir.ports["http"])
        self.assertEqual(samples["weir_fleet_coordinator_reachable", (("policy", "egress"),)], 0)
        self.assertEqual(samples["weir_ready", ()], 1)


class Prometheus:
    """A real one that scrapes `port`, on an address and in a folder of its own."""

    def __init__(self, port):
        self.folder = tempfile.TemporaryDirectory(prefix="prometheus-")
        self.url = f"http://127.0.0.1:{free_port()}"
        config = os.path.join(self.folder.name, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
                       "rule_files": [str(RULES)],
                       "scrape_configs": [{"job_name": "weir", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]},
                      file)
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder.name}/data",
             "--web.listen-address=" + self.url[7:], "--log.level=error"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def get(self, path, **query):
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return json.load(reply)["data"]

    def query(self, expression):
        """Every series with its value."""
        result = self.get("/api/v1/query", query=expression)["result"]
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in result}

    def wait(self, holds):
        """Until it does; what it was told last, if it does not in time."""
        deadline, last = time.monotonic() + min(20, server.PATIENCE), None
        while time.monotonic() < deadline:
            try:
                last = holds()
                if last is True:
                    return True
            except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
                last = error  # it has not started yet
            time.sleep(0.05)  # between two questions
        return last


class Real(MetricsTest):
    def test_prometheus_scrapes_what_clients_were_answered(self):
        weir = self.start_http("--data", "data", config=POLICIES % "[10/h, 12/d name=day]" + FLEET % free_port())
        traffic = self.traffic(weir, 7)
        with Prometheus(weir.ports["http"]) as prometheus:
            traffic.ask(200)

            def scraped():
                samples = {}
                for name in ("weir_decisions_total", "weir_refused_total"):
                    for labels, value in prometheus.query(name).items():
                        kept = tuple(one for one in labels if one[0] not in ("__name__", "job", "instance"))
                        samples[name, kept] = value
                return traffic.differences(samples) or True

            self.assertIs(prometheus.wait(scraped), True)
            self.assertEqual(list(prometheus.query('up{job="weir"}').values()), [1])
            target = prometheus.get("/api/v1/targets")["activeTargets"][0]
            self.assertEqual((target["health"], target["lastError"]), ("up", ""))
            # Alerts are evaluated on real series: one that has to be there, and none that must not.
            self.assertIs(prometheus.wait(lambda: {one["labels"]["alertname"] for one in
                                                   prometheus.get("/api/v1/alerts")["alerts"]}
                                          == {"WeirFleetCoordinatorAway"}), True)
        self.assertEqual(fetch(weir.ports["http"], "/livez").json, {"live": True, "silent_threads": 0})


def names_in(expression):
    """Metrics that PromQL names: series of histograms by their family."""
    bare = re.sub(r'"[^"]*"', "", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"\b(?:weir|process)_\w+", bare)}


class Documents(MetricsTest):
    """Rules, dashboard and document name the metrics that there are, and all of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            files = {name: os.path.join(folder, name) for name in ("cert", "key")}
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-days", "30", "-subj", "/CN=localhost", "-keyout", files["key"], "-out", files["cert"]],
                           check=True, capture_output=True, timeout=server.PATIENCE)
            cls.expires = time.time() + 30 * 86400
            weir = server.Server("--data", "data", also=("http", "resp_tls"),
                                 config=f"tls: {{cert: {files['cert']}, key: {files['key']}}}\n"
                                 + POLICIES % "10/h" + FLEET % free_port())
        try:
            with weir.connect() as client:
                client.ask("WEIR.IMAGE")
            cls.text = fetch(weir.ports["http"], "/metrics").text
        finally:
            weir.stop()
        cls.names = set(re.findall(r"^# TYPE (\S+)", cls.text, re.MULTILINE))

    def test_the_certificate_expires_when_it_does(self):
        expires = re.search(r"^weir_tls_certificate_expiry_timestamp_seconds (\S+)$", self.text, re.MULTILINE)
        self.assertAlmostEqual(float(expires.group(1)), self.expires, delta=60)

    def test_the_rules_fire_and_clear(self):
        for command in (["check", "rules", RULES], ["test", "rules", DIST / "prometheus" / "weir.rules.test.yml"]):
            done = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_rule_names_metrics_that_there_are_and_has_a_test(self):
        rules, tests = RULES.read_text(), (DIST / "prometheus" / "weir.rules.test.yml").read_text()
        self.assertEqual(names_in(re.sub(r"description: .*", "", rules)) - self.names, set())
        alerts = re.findall(r"- alert: (\w+)", rules)
        self.assertGreaterEqual(len(alerts), 11)
        for alert in alerts:
            times = re.findall(rf"alertname: {alert}\n +eval_time: \w+\n +exp_alerts:( \[\])?", tests)
            self.assertIn("", times, f"{alert} fires in no test")
            self.assertEqual(times[-1], " []", f"{alert} does not clear in its test")

    def test_the_dashboard_shows_every_metric(self):
        board = json.loads((DIST / "grafana" / "weir.json").read_text())
        self.assertEqual((board["id"], board["uid"]), (None, "weir"))
        used = set()
        for panel in board["panels"]:
            if panel["type"] == "row":
                continue
            self.assertEqual(panel["datasource"]["uid"], "${datasource}", panel["title"])
            for target in panel["targets"]:
                used |= names_in(target["expr"])
                self.assertIn('job=~"$job", instance=~"$instance"', target["expr"])
        self.assertEqual(used, self.names)
        variables = [one["name"] for one in board["templating"]["list"]]
        self.assertEqual(variables, ["datasource", "job", "instance", "policy"])
        places = [(panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y) for panel in board["panels"]
                  for x in range(panel["gridPos"]["w"]) for y in range(panel["gridPos"]["h"])]
        self.assertEqual(len(places), len(set(places)), "panels overlap")
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))

    def test_the_document_has_a_row_for_every_metric_and_alert(self):
        document = (server.ROOT / "docs" / "operations.md").read_text()
        section = document.split("\n## Metrics and alerts\n")[1].split("\n## ")[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        told = {name for row in rows for name in re.findall(r"`((?:weir|process)_\w+)", row)}
        self.assertEqual(told, self.names)
        alerts = {name for row in rows for name in re.findall(r"`(Weir\w+)`", row)}
        self.assertEqual(alerts, set(re.findall(r"- alert: (\w+)", RULES.read_text())))


if __name__ == "__main__":
    unittest.main()
