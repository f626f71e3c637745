"""Runs a file's cases, and says for tests/test_summary.py which of them this machine could not run, and why."""
import sys
import unittest


def skip_lines(result):
    """The lines that say so: of the whole test where no case was left, otherwise of each case."""
    left = result.testsRun - sum(isinstance(case, unittest.TestCase) for case, _ in result.skipped)
    if result.skipped and left <= 0:
        return ["SKIPPED: all cases, %s" % reason for reason in dict.fromkeys(reason for _, reason in result.skipped)]
    return ["PARTLY SKIPPED: %s, %s" % (case.id().split(".")[-1], reason) for case, reason in result.skipped]


def went_well(result):
    """Whether all cases did; a file that has none holds nothing."""
    return result.wasSuccessful() and (result.testsRun > 0 or bool(result.skipped))


def main():
    ran = unittest.main(module="__main__", verbosity=2, exit=False)
    print("\n".join(line.replace("\n", " ") for line in skip_lines(ran.result)), flush=True)
    sys.exit(not went_well(ran.result))
