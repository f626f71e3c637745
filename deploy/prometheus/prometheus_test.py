#!/usr/bin/env python3
"""Rules, board and example configuration hold for what a real run exports, by Debian's Prometheus."""
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import unittest
import urllib.parse

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "integration"))

import cluster  # noqa: E402
from cluster import (  # noqa: E402
    ClusterTest, Process, core, program, read_when_there, reference_device, route, run_command, unit, wait_for, write_file)

IS_THERE = all(shutil.which(name) for name in ("prometheus", "promtool"))
WITHOUT = "there is no Prometheus: apt-get install --no-install-recommends prometheus"
COORDINATOR, AGENTS = "medley-coordinator", "medley-agents"

# What Prometheus itself makes, not the programs.
OF_PROMETHEUS = {"up": {"job", "instance"}, "scrape_duration_seconds": {"job", "instance"}}
# What daemons with certificates alone export.
WITH_TLS = {"medley_certificate_remaining_seconds": {"job", "instance"}}
# Expressions of the board that a run in which nothing goes wrong, in the clear, has nothing for.
MAY_BE_EMPTY = ('grpc_status!="OK"', *WITH_TLS)

CODES = ("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
         "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED").split()
STATES = "queued profiling planning launching running recovering done failed cancelled".split()
# All that a label may say. An empty one: as many values as there are devices, jobs or bounds.
LABELS = {
    "grpc_method": r"(medley\.v1\.(Coordinator|Registry|Agent)|grpc\.health\.v1\.Health|grpc\.reflection\.\w+\.ServerReflection)/[A-Z]\w+",
    "grpc_status": "|".join(CODES),
    "le": r"\+Inf|[0-9.e+-]+",
    "state": "|".join([*STATES, "preparing", "started", "held", "expiring"]),
    "part": "|".join([state for state in STATES if state not in ("running", "done", "failed", "cancelled")]
                     + ["steps", "repeated_steps", "validation", "checkpoint", "between_steps"]),
    "use": "busy|free|lost",
    "operation": r"[a-z][a-z ]{2,30}|[A-Z][A-Za-z]{2,30}",  # of links and of the store
    "medley_job": "watched-[0-9]+",
    "node": "a|b",
    "device": "ref0",
    "peer_node": "a|b",
    "peer_device": "ref0",
    "kind": r"[ -~]{1,100}",
    "version": r"[0-9][ -~]{0,40}",
}
SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"{}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
ENDINGS = {"gauge": [""], "counter": ["_total"], "info": ["_info"], "histogram": ["_bucket", "_count", "_sum"]}


def samples_of(page):
    """(family, kind, sample's name, labels) in the page's order; AssertionError where it is not OpenMetrics."""
    assert page.endswith("\n# EOF\n") and page.count("# EOF") == 1, page[-200:]
    kinds, helped, family, found, seen = {}, set(), None, [], set()
    for line in page.splitlines()[:-1]:
        if line.startswith("# "):
            what, name, rest = line[2:].split(" ", 2)
            if what == "TYPE":
                assert name not in kinds and rest in ENDINGS, line
                kinds[name], family = rest, name
            else:
                assert what == "HELP" and name == family and name not in helped and len(rest) > 3, line
                helped.add(name)
            continue
        match = SAMPLE.match(line)
        assert match and family in helped, line
        assert match[1] in [family + ending for ending in ENDINGS[kinds[family]]], line
        float(match[3])
        labels = dict(LABEL.findall(match[2] or ""))
        assert ",".join('%s="%s"' % pair for pair in labels.items()) == (match[2] or ""), line
        assert (match[1], match[2]) not in seen, line
        seen.add((match[1], match[2]))
        found.append((family, kinds[family], match[1], labels))
    assert set(kinds) == helped, set(kinds) ^ helped
    return found


def in_older_format(page):
    """As promtool reads it, which knows families by the names of their samples."""
    lines, ending = [], ""
    for line in page.splitlines()[:-1]:
        words = line.split(" ", 3)
        if words[:2] == ["#", "TYPE"]:
            kind = words[3]
            ending = ENDINGS[kind][0] if kind in ("counter", "info") else ""
            line = "# TYPE %s%s %s" % (words[2], ending, "gauge" if kind == "info" else kind)
        elif words[:2] == ["#", "HELP"]:
            line = "# HELP %s%s %s" % (words[2], ending, words[3].replace('\\"', '"'))
        lines.append(line)
    return "\n".join(lines) + "\n"


def selectors_of(expression):
    """(metric, labels that it is chosen by) of each selector, and all labels that are grouped or matched by."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    grouping = set()

    def keep(match):
        grouping.update(re.findall(r"\w+", match[2]))
        return " "

    text = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", keep, text)
    text = re.sub(r"\[[^\]]*\]", " ", text)
    text = re.sub(r"\boffset\s+\w+", " ", text)
    found = []
    for match in re.finditer(r"([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?(\s*\()?", text):
        if match[3] or match[1] in ("and", "or", "unless", "bool", "Inf", "NaN"):
            continue
        if match.start() and re.match(r"[\d.]", text[match.start() - 1]):
            continue  # the exponent of a number
        found.append((match[1], set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", match[2] or ""))))
    return found, grouping


def board():
    with open(os.path.join(HERE, "grafana.json")) as file:
        return json.load(file)


def rules():
    with open(os.path.join(HERE, "alerts.yaml")) as file:
        return [rule for group in yaml.safe_load(file)["groups"] for rule in group["rules"]]


def board_expressions():
    """(panel, expression as Grafana would send it for the one job, and all nodes)"""
    found = []
    for panel in board()["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in (("${node:regex}", ".*"), ("$node", ".*"), ("$job", "watched-1"), ("$__rate_interval", "1m")):
                expression = expression.replace(name, value)
            assert "$" not in expression, expression
            found.append((panel["title"], expression))
    return found


def example(directory, change):
    """prometheus.yaml with scrape configurations changed by change(name, configuration), in the directory."""
    with open(os.path.join(HERE, "prometheus.yaml")) as file:
        text = file.read().replace("/etc/prometheus/medley", directory)
    configuration = yaml.safe_load(text)
    configuration["global"].update(scrape_interval="1s", evaluation_interval="1s")
    configuration["rule_files"] = [os.path.join(HERE, "alerts.yaml")]
    configuration.pop("alerting")  # there is nobody to tell
    for scrape in configuration["scrape_configs"]:
        change(scrape["job_name"], scrape)
    return write_file(os.path.join(directory, "prometheus.yaml"), yaml.safe_dump(configuration))


class Prometheus:
    def __init__(self, case, directory, configuration):
        self.process = Process("prometheus", [
            "prometheus", "--config.file=" + configuration, "--storage.tsdb.path=" + os.path.join(directory, "prometheus"),
            "--web.listen-address=127.0.0.1:0", "--log.level=info"], os.path.join(directory, "prometheus.log"))
        case.addClassCleanup(self.process.kill_group)
        self.address = wait_for(lambda: "Prometheus listens:\n" + self.process.log(), self._listens_at)
        wait_for(lambda: "Prometheus is ready:\n" + self.process.log(), lambda: get(self.address, "/-/ready")[0] == 200)

    def _listens_at(self):
        if self.process.child.poll() is not None:
            raise AssertionError("Prometheus ended:\n" + self.process.log())
        found = re.search(r'msg="Listening on" address=(127\.0\.0\.1:[1-9]\d*)', self.process.log())
        return found and found[1]

    def ask(self, path, **query):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request("GET", "/api/v1/%s?%s" % (path, urllib.parse.urlencode(query)))
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status != 200:
                raise AssertionError("%s %s: %s" % (path, query, text))
            return json.loads(text)["data"]
        finally:
            connection.close()

    def query(self, expression):
        """Its samples' values."""
        data = self.ask("query", query=expression)
        result = data["result"] if data["resultType"] == "vector" else [{"value": data["result"]}]
        return [float(one["value"][1]) for one in result]


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        connection.close()


def promtool(*arguments, text=None, directory=HERE):
    done = subprocess.run(["promtool", *arguments], cwd=directory, input=text, capture_output=True, text=True, timeout=180)
    return done.returncode, done.stdout + done.stderr


class FilesTest(unittest.TestCase):
    """What can be seen without a run."""

    def test_each_rule_says_what_a_person_needs(self):
        for rule in rules():
            if "alert" not in rule:
                continue
            with self.subTest(rule["alert"]):
                self.assertRegex(rule["alert"], r"^Medley([A-Z][a-z]+)+$")
                self.assertEqual(list(rule["labels"]), ["severity"])
                self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
                self.assertEqual(sorted(rule["annotations"]), ["description", "summary"])
                self.assertLess(len(rule["annotations"]["summary"]), 160)
                self.assertTrue(rule["annotations"]["summary"].rstrip().endswith("."))

    def test_each_alert_has_a_case_that_fires_and_one_that_does_not(self):
        with open(os.path.join(HERE, "alerts_test.yaml")) as file:
            cases = yaml.safe_load(file)["tests"]
        names = [rule["alert"] for rule in rules() if "alert" in rule]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(set(names), {case["name"] for case in cases[1:]})
        self.assertEqual(cases[0]["promql_expr_test"][0], {"expr": "ALERTS", "eval_time": "290m", "exp_samples": []})
        for name in names:
            asked = [one for case in cases if case["name"] == name for one in case["promql_expr_test"]]
            self.assertTrue(all("ALERTS" in one["expr"] for one in asked), name)
            fires = [sample for one in asked for sample in one["exp_samples"] if '"%s"' % name in sample["labels"]]
            self.assertTrue(fires, name)
            series = sum(len(case["input_series"]) for case in cases if case["name"] == name)
            self.assertGreater(series, len(fires), name)

    def test_the_board_is_laid_out(self):
        panels = board()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = set()
        for panel in panels:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(taken & cells, panel["title"])
            self.assertLessEqual(at["x"] + at["w"], 24)
            taken |= cells
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
            for one in [panel, *panel["targets"]]:
                self.assertEqual(one["datasource"], {"type": "prometheus", "uid": "${datasource}"}, panel["title"])
        variables = {one["name"]: one for one in board()["templating"]["list"]}
        self.assertEqual(list(variables), ["datasource", "job", "node"])
        with open(os.path.join(HERE, "grafana.json")) as file:
            self.assertNotRegex(file.read(), r"https?:|\"links\": \[[^\]]")

    def test_selectors_are_found(self):
        found, grouping = selectors_of('sum by (le) (rate(a_b{x="}[", y!~"z"}[5m] offset 1h)) / on (job) group_left () c:d > 4e9 and e')
        self.assertEqual(found, [("a_b", {"x", "y"}), ("c:d", set()), ("e", set())])
        self.assertEqual(grouping, {"le", "job"})


@unittest.skipUnless(IS_THERE, WITHOUT)
class PromtoolTest(ClusterTest):
    def check(self, *arguments, **options):
        status, out = promtool(*arguments, **options)
        self.assertEqual(status, 0, out)
        return out

    def test_rules_and_their_cases(self):
        self.assertIn("rules found", self.check("check", "rules", "alerts.yaml"))
        self.check("test", "rules", "alerts_test.yaml")

    def test_a_case_that_is_wrong_is_noticed(self):
        with open(os.path.join(HERE, "alerts_test.yaml")) as file:
            text = file.read()
        wrong = text.replace('node="lost"}\', value: 1', 'node="here"}\', value: 1')
        self.assertNotEqual(text, wrong)
        shutil.copy(os.path.join(HERE, "alerts.yaml"), self.directory)
        write_file(os.path.join(self.directory, "wrong.yaml"), wrong)
        self.assertEqual(promtool("test", "rules", "wrong.yaml", directory=self.directory)[0], 1)

    def test_the_example_scrapes_with_a_viewers_certificate(self):
        def certificates(*arguments):
            result = run_command([program("medley"), "certs", *arguments])
            self.assertEqual(result.status, 0, result)

        running = self.new_cluster(pages=True)
        authority, of_coordinator, viewer = [running.path(name) for name in ("authority", "coordinator-tls", "viewer")]
        certificates("init", authority)
        certificates("issue", of_coordinator, "--authority", authority, "--role", "coordinator", "--name", "coordinator",
                     "--host", "127.0.0.1")
        certificates("issue", viewer, "--authority", authority, "--role", "viewer", "--name", "prometheus")
        running.start_coordinator(tls={
            "certificate": os.path.join(of_coordinator, "certificate.pem"), "key": os.path.join(of_coordinator, "key.pem"),
            "authority": os.path.join(of_coordinator, "authority.pem")})
        web = running.site

        def change(name, scrape):
            if name == COORDINATOR:
                scrape["static_configs"] = [{"targets": [web]}]
            else:
                scrape["static_configs"] = []

        shutil.copy(os.path.join(HERE, "alerts.yaml"), viewer)
        with open(os.path.join(HERE, "prometheus.yaml")) as file:  # as it is, but for the folder
            write_file(os.path.join(viewer, "as-it-is.yaml"), file.read().replace("/etc/prometheus/medley", viewer))
        self.check("check", "config", "as-it-is.yaml", directory=viewer)
        prometheus = Prometheus(type(self), viewer, example(viewer, change))
        wait_for(lambda: str(prometheus.ask("targets")), lambda: prometheus.query('up{job="%s"}' % COORDINATOR) == [1])
        self.assertGreater(prometheus.query("medley_certificate_remaining_seconds")[0], 86400)
        context = ssl.create_default_context(cafile=os.path.join(viewer, "authority.pem"))
        connection = http.client.HTTPSConnection(web, timeout=60, context=context)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics")
        self.assertEqual(connection.getresponse().status, 401)


@unittest.skipUnless(IS_THERE, WITHOUT)
class RunTest(ClusterTest):
    """A job on two nodes that goes on for as long as it is looked at."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        running = cls.running = cls.new_cluster(pages=True)
        running.start_coordinator(backup={"directory": running.path("backups")})
        cls.web = {"coordinator": running.site}
        for i, name in enumerate(("a", "b")):
            file = running.path(name + "-web")
            running.start_agent(name, [reference_device(core(i))], http_address="127.0.0.1:0", http_address_file=file)
            cls.web[name] = read_when_there(file, running.agents[name])
        running.wait_for_nodes("a", "b")
        spec = cls.spec("watched", steps=1_000_000, validation={"every_steps": 5}, checkpoint={
            "directory": running.path("checkpoints"), "every_steps": 1000, "keep": 1}, plan={
                "micro_batch_sequences": 2, "schedule": "gpipe", "routes": [route([0, 1], 4)],
                "units": [unit("a/ref0", 0, 2), unit("b/ref0", 2, 5)]})
        spec["data"]["validation"] = cls.data
        cls.job = running.submit(spec)
        assert cls.job == "watched-1", cls.job
        write_file(running.path("agents-all.json"), json.dumps([{"targets": [cls.web["b"]]}]))

        def change(name, scrape):
            scrape["scheme"] = "http"
            scrape.pop("tls_config")
            scrape["static_configs"] = [{"targets": [cls.web["coordinator" if name == COORDINATOR else "a"]]}]  # b: by the file

        cls.prometheus = Prometheus(cls, running.directory, example(running.directory, change))
        running.wait_for_step(cls.job, 10)
        for figure in ("medley_link_sent_bytes{", "medley_job_predicted_over_measured_ratio{", "medley_job_validation_loss{"):
            wait_for(figure, lambda: figure in cls.page("coordinator"))
        cls.pages = {name: cls.page(name) for name in cls.web}

    @classmethod
    def page(cls, name):
        status, kind, text = get(cls.web[name], "/metrics")
        assert (status, kind) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"), (status, kind, text)
        return text

    def test_pages_are_open_metrics_whose_labels_are_bounded(self):
        for name, page in self.pages.items():
            samples = samples_of(page)
            self.assertGreater(len(samples), 20)
            for family, _, sample, labels in samples:
                self.assertRegex(family, r"^(medley|process|grpc_server)_[a-z_]+$")
                for label, value in labels.items():
                    self.assertRegex(value, "^(%s)$" % LABELS[label], "%s of %s at %s" % (label, sample, name))
            self.assertLess(len(samples), 2000)

    def test_promtool_has_nothing_against_the_names(self):
        for page in self.pages.values():
            status, out = promtool("check", "metrics", text=in_older_format(page))
            self.assertEqual((status, out), (0, ""))

    def test_all_that_rules_and_board_ask_for_is_exported(self):
        exported = {name: set(labels) for name, labels in {**OF_PROMETHEUS, **WITH_TLS}.items()}
        for page in self.pages.values():
            for _, _, sample, labels in samples_of(page):
                exported.setdefault(sample, {"job", "instance"}).update(labels)
        recorded = {rule["record"]: {"job", "instance", "medley_job", "part"} for rule in rules() if "record" in rule}
        exported.update(recorded)
        every = {label for labels in exported.values() for label in labels}
        variables = [(one["name"], re.fullmatch(r"label_values\((\w+), (\w+)\)", one["definition"]))
                     for one in board()["templating"]["list"] if one["type"] == "query"]
        asked = [(name, '%s{%s=""}' % match.groups()) for name, match in variables]
        asked += [(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()] + board_expressions()
        for title, expression in asked:
            found, grouping = selectors_of(expression)
            self.assertTrue(found, expression)
            self.assertLessEqual(grouping, every, "%s: %s" % (title, expression))
            for metric, labels in found:
                self.assertIn(metric, exported, "%s: %s" % (title, expression))
                self.assertLessEqual(labels, exported[metric], "%s: %s" % (title, expression))

    def test_all_that_is_exported_for_people_is_on_the_board_or_in_a_rule(self):
        text = json.dumps(board()) + json.dumps(rules())
        families = {family for page in self.pages.values() for family, _, _, _ in samples_of(page)}
        self.assertEqual({family for family in families if family not in text}, set())

    def test_every_expression_is_evaluated(self):
        prometheus = self.prometheus
        wait_for(lambda: str(prometheus.ask("targets")),
                 lambda: prometheus.query("sum(up)") == [3] and prometheus.query("count(medley_agent_tasks)") == [4])
        for rule in rules():
            prometheus.query(rule["expr"])  # raises what is wrong

        def loaded():
            seen = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
            return len(seen) == len(rules()) and all(rule["health"] != "unknown" for rule in seen) and seen

        for rule in wait_for("rules are evaluated", loaded):
            self.assertEqual(rule["health"], "ok", rule)
        missing = dict.fromkeys(board_expressions())

        def have_data():
            for title, expression in list(missing):
                if prometheus.query(expression) or any(word in expression for word in MAY_BE_EMPTY):
                    del missing[title, expression]
            return not missing

        wait_for(lambda: "panels have data; not %s" % list(missing), have_data, 240)

    def test_where_a_jobs_time_goes_adds_up(self):
        """On the board, too: shares of the last ten minutes are 1 together."""
        panels = dict(board_expressions())
        wait_for("shares", lambda: [round(value, 6) for value in self.prometheus.query(
            "sum(%s)" % panels["Where the time goes"])] == [1])
        self.assertAlmostEqual(self.prometheus.query("%s + sum(%s)" % (panels["Goodput"], panels["Lost time by cause"]))[0], 1, 6)

    def test_no_label_is_one_of_prometheus(self):
        """A job of Medley's has a label of its own, beside the one of the scrape."""
        self.assertEqual(len(wait_for("steps", lambda: self.prometheus.query(
            'medley_job_step{medley_job="watched-1", job="%s"}' % COORDINATOR))), 1)
        self.assertEqual(self.prometheus.query('{__name__=~"exported_.*"} or {exported_job!=""} or {exported_instance!=""}'), [])

    def test_counters_never_fall(self):
        """Page by page, while the job goes on and checkpoints and validations come."""
        before = {}
        for _ in range(20):
            for line in self.page("coordinator").splitlines():
                match = SAMPLE.match(line)
                if match and re.search(r"_(total|count|sum|bucket)$", match[1]):
                    self.assertGreaterEqual(float(match[3]), before.get((match[1], match[2]), 0), line)
                    before[match[1], match[2]] = float(match[3])
        self.assertTrue(any(name == "medley_job_seconds_total" and 'part="steps"' in labels and value > 0
                            for (name, labels), value in before.items()))

    def test_a_jobs_time_adds_up_to_the_wall_time(self):
        """Counters, and what is not among them yet, grow as time does, between two looks by a clock of the test's own."""
        def look():
            began = time.monotonic()
            parts = [float(match[3]) for match in map(SAMPLE.match, self.page("coordinator").splitlines())
                     if match and match[1] in ("medley_job_seconds_total", "medley_job_unaccounted_seconds")]
            return began, time.monotonic(), sum(parts)

        first_began, first_ended, first = look()
        steps = int(self.prometheus.query("medley_job_step")[0]) if self.prometheus.query("medley_job_step") else 0
        self.running.wait_for_step(self.job, steps + 20)
        last_began, last_ended, last = look()
        # A page is made at some moment of its look; what is on disk may be a flush older than that.
        self.assertGreaterEqual(last - first, last_began - first_ended - 0.01)
        self.assertLessEqual(last - first, last_ended - first_began + 0.01)

    def test_memory_in_use_is_within_what_there_may_be(self):
        used = wait_for("memory", lambda: [value for value in self.prometheus.query(
            "medley_agent_device_memory_usage_bytes") if value > 0])
        self.assertLessEqual(max(used), max(self.prometheus.query("medley_agent_device_memory_limit_bytes")))


if __name__ == "__main__":
    cluster.main()
