#!/usr/bin/env python3
"""Counts the tests of a Bazel run: test_summary.py EVENTS STATUS

EVENTS is what `bazel test --build_event_json_file=EVENTS` wrote, STATUS how that ended. Names what failed and what was
skipped, and ends with the line "N passed, N failed, N skipped". Exits with 0 if nothing failed.

A test of something that this machine lacks cannot say so to Bazel, which knows passed and failed only. It writes a line
"SKIPPED: what, why" to its output, and passes; where only some of its cases are concerned, "PARTLY SKIPPED: what, why".
Only a test that passed can be skipped. A test that failed before it passed (FLAKY) has failed, and so has one that was not
built or not reached.
"""
import json
import sys
from urllib.parse import unquote, urlparse

SKIPPED, PARTLY_SKIPPED = "SKIPPED: ", "PARTLY SKIPPED: "


class Test:
    def __init__(self):
        self.status = "not run"
        self.logs = []


def read_events(lines):
    """Tests by label. A last line that was cut off, as by a kill, is left out."""
    tests = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        for kind, its in event.get("id", {}).items():
            label = its.get("label") if isinstance(its, dict) else None
            if kind == "targetConfigured" and "testSize" in event.get("configured", {}):
                tests.setdefault(label, Test())
            elif kind == "testResult" and "testResult" in event:
                test = tests.setdefault(label, Test())
                test.logs += [output["uri"] for output in event["testResult"].get("testActionOutput", [])
                              if output.get("name") == "test.log" and "uri" in output]
            elif kind == "testSummary" and "testSummary" in event:
                tests.setdefault(label, Test()).status = event["testSummary"]["overallStatus"]
    return tests


def read_log(uri):
    try:
        with open(unquote(urlparse(uri).path), errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def reasons(test, prefix, read=read_log):
    """What the test wrote behind `prefix`, each once."""
    found = [line[len(prefix):].strip() for uri in test.logs for line in read(uri).splitlines() if line.startswith(prefix)]
    return list(dict.fromkeys(found))


def summarise(tests, status, read=read_log):
    """The lines to print, and whether nothing failed. `status`: with what Bazel ended."""
    passed, failed, skipped, partly = [], [], [], []
    for label, test in sorted(tests.items()):
        if test.status != "PASSED":
            failed.append("%s (%s)" % (label, test.status.replace("_", " ").lower()))
            continue
        why = reasons(test, SKIPPED, read)
        (skipped if why else passed).append("%s: %s" % (label, "; ".join(why)))
        if not why:
            partly += ["%s: %s" % (label, reason) for reason in reasons(test, PARTLY_SKIPPED, read)]
    if status != 0 and not failed:
        failed.append("the build itself (bazel ended with %d)" % status)
    if not tests and not failed:
        failed.append("no test was found")
    lines = []
    for title, which in (("Skipped:", skipped), ("Skipped in part:", partly), ("Failed:", failed)):
        lines += [title, *("  " + one for one in which)] if which else []
    counts = "%d passed, %d failed" % (len(passed), len(failed))
    return lines + [counts + (", %d skipped" % len(skipped) if skipped else "")], not failed


def main():
    try:
        with open(sys.argv[1], errors="replace") as file:
            tests = read_events(file)
    except OSError:
        tests = {}
    lines, well = summarise(tests, int(sys.argv[2]))
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
