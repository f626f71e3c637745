#!/usr/bin/env python3
"""What tests/run.sh makes of what Bazel says."""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_summary  # noqa: E402


def configured(label):
    return {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": "cc_test rule", "testSize": "SMALL"}}


def result(label, uri, attempt=1):
    return {"id": {"testResult": {"label": label, "run": 1, "attempt": attempt}},
            "testResult": {"testActionOutput": [{"name": "test.xml", "uri": uri + ".xml"}, {"name": "test.log", "uri": uri}]}}


def summary(label, status):
    return {"id": {"testSummary": {"label": label}}, "testSummary": {"overallStatus": status}}


def lines(*events):
    return [json.dumps(event) + "\n" for event in events]


def summarise(events, status=0, logs=None):
    return test_summary.summarise(test_summary.read_events(events), status, lambda uri: (logs or {}).get(uri, ""))


class TestSummaryTest(unittest.TestCase):
    def test_what_passed_and_failed_is_counted_once_a_test(self):
        text, well = summarise(lines(configured("//a:x"), configured("//a:y"), summary("//a:x", "PASSED"),
                                     summary("//a:y", "FAILED")), 3)
        self.assertEqual(text, ["Failed:", "  //a:y (failed)", "1 passed, 1 failed"])
        self.assertFalse(well)

    def test_all_well(self):
        self.assertEqual(summarise(lines(configured("//a:x"), summary("//a:x", "PASSED"))), (["1 passed, 0 failed"], True))

    def test_flaky_timed_out_and_never_run_are_failures(self):
        for status in ("FLAKY", "TIMEOUT", "NO_STATUS", "INCOMPLETE", "FAILED_TO_BUILD", "REMOTE_FAILURE"):
            with self.subTest(status=status):
                text, well = summarise(lines(configured("//a:x"), summary("//a:x", status)))
                self.assertEqual(text[-1], "0 passed, 1 failed")
                self.assertFalse(well)
        self.assertEqual(summarise(lines(configured("//a:x")), 8)[0], ["Failed:", "  //a:x (not run)", "0 passed, 1 failed"])

    def test_a_test_that_says_so_is_skipped_with_its_reason(self):
        logs = {"file:///x": "Running\nSKIPPED: cuda, no driver\nSKIPPED: cuda, no driver\nAll tests passed\n"}
        events = lines(configured("//a:x"), result("//a:x", "file:///x"), summary("//a:x", "PASSED"))
        self.assertEqual(summarise(events, 0, logs), (["Skipped:", "  //a:x: cuda, no driver", "0 passed, 0 failed, 1 skipped"], True))

    def test_a_test_that_says_so_and_fails_has_failed(self):
        logs = {"file:///x": "SKIPPED: cuda, no driver\n"}
        events = lines(configured("//a:x"), result("//a:x", "file:///x"), summary("//a:x", "FAILED"))
        text, well = summarise(events, 3, logs)
        self.assertEqual(text[-1], "0 passed, 1 failed")
        self.assertFalse(well)

    def test_a_case_that_is_skipped_is_named_and_its_test_has_passed(self):
        logs = {"file:///x": "PARTLY SKIPPED: test_full_disk, cannot mount\n"}
        events = lines(configured("//a:x"), result("//a:x", "file:///x"), summary("//a:x", "PASSED"))
        self.assertEqual(summarise(events, 0, logs),
                         (["Skipped in part:", "  //a:x: test_full_disk, cannot mount", "1 passed, 0 failed"], True))

    def test_words_in_the_middle_of_a_line_skip_nothing(self):
        logs = {"file:///x": "a test was SKIPPED: no\n  SKIPPED: no\n"}
        events = lines(configured("//a:x"), result("//a:x", "file:///x"), summary("//a:x", "PASSED"))
        self.assertEqual(summarise(events, 0, logs)[0], ["1 passed, 0 failed"])

    def test_a_build_that_fails_without_a_test_is_a_failure(self):
        self.assertEqual(summarise([], 1), (["Failed:", "  the build itself (bazel ended with 1)", "0 passed, 1 failed"], False))
        self.assertEqual(summarise(lines(configured("//a:x"), summary("//a:x", "PASSED")), 1)[0][-1], "1 passed, 1 failed")
        self.assertFalse(summarise([], 0)[1])

    def test_a_log_is_read_and_a_cut_line_is_left_out(self):
        with tempfile.NamedTemporaryFile("w", suffix=" log") as log:
            log.write("SKIPPED: a, b\n")
            log.flush()
            events = lines(configured("//a:x"), result("//a:x", "file://" + log.name.replace(" ", "%20")),
                           summary("//a:x", "PASSED"))
            tests = test_summary.read_events(events + ['{"id": {"testSummary": {"la'])
            self.assertEqual(test_summary.summarise(tests, 0)[0][-1], "0 passed, 0 failed, 1 skipped")


if __name__ == "__main__":
    unittest.main()
