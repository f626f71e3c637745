"""Tests of the four programs as users run them."""

def program_test(name, data = [], size = "large"):
    """Runs NAME.py of this package, which may use cluster.py, with the programs side by side in a folder of their own (run_test.sh)."""
    native.sh_test(
        name = name,
        size = size,  # in minutes on a machine that is busy with more
        srcs = ["//tests/integration:run_test.sh"],
        data = [
            name + ".py",
            "//agent/daemon:medley-agent",
            "//agent/worker:medley-worker",
            "//cli:medley",
            "//coordinator/daemon:medley-coordinator",
            "//tests/integration:cluster.py",
            "//tests/integration:run_cases.py",
        ] + data,
        tags = ["exclusive"],  # two cores, and deadlines
    )
