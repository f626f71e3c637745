#!/usr/bin/env python3
"""What a test says of cases that it skipped."""
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run_cases  # noqa: E402


class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("no namespaces")

    def test_a(self):
        pass

    def test_b(self):
        pass


class Some(unittest.TestCase):
    def test_a(self):
        pass

    def test_b(self):
        self.skipTest("cannot mount")


class RunCasesTest(unittest.TestCase):
    def result(self, *classes):
        suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(one) for one in classes)
        return unittest.TextTestRunner(stream=io.StringIO()).run(suite)

    def lines(self, *classes):
        return run_cases.skip_lines(self.result(*classes))

    def test_a_class_that_cannot_run_skips_the_whole_test(self):
        self.assertEqual(self.lines(Whole), ["SKIPPED: all cases, no namespaces"])

    def test_a_case_that_cannot_run_skips_a_part(self):
        self.assertEqual(self.lines(Some), ["PARTLY SKIPPED: test_b, cannot mount"])
        self.assertEqual(len(self.lines(Some, Whole)), 2)
        self.assertTrue(all(line.startswith("PARTLY SKIPPED: ") for line in self.lines(Some, Whole)))

    def test_nothing_skipped_says_nothing(self):
        class Well(unittest.TestCase):
            def test_a(self):
                pass

        self.assertEqual(self.lines(Well), [])

    def test_a_file_without_cases_has_not_gone_well(self):
        self.assertFalse(run_cases.went_well(self.result()))
        self.assertTrue(run_cases.went_well(self.result(Whole)))
        self.assertTrue(run_cases.went_well(self.result(Some)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], defaultTest="RunCasesTest", verbosity=2)
