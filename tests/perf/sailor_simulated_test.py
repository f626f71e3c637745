#!/usr/bin/env python3
"""sailor_simulated.py with a stand-in for the simulator."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from sailor_simulated import Simulator, with_scores

# Seconds of a plan are in it; of Sailor's in the cluster's file.
EVALUATE = """
import json
import sys
path, cluster = sys.argv[1], sys.argv[sys.argv.index("--cluster") + 1]
assert sys.argv[sys.argv.index("--mode") + 1] == "uneven" and "--json" in sys.argv
with open(path) as file:
    plan = json.load(file)
if "refused" in plan:
    sys.exit("a line before\\nrefused: " + plan["refused"])
if "imports" in plan:
    __import__(plan["imports"])
seconds = plan["seconds"]
print(json.dumps({"iteration_time_s": seconds, "iterations_per_s": 1 / seconds, "fits_in_memory": seconds < 5,
                  "warnings": plan.get("warnings", []), "cluster": cluster}))
"""


class SailorSimulatedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.data = folder.name
        self.plans = os.path.join(self.data, "profiles", "sailor", "best_plans")
        os.makedirs(self.plans)
        self.write("evaluate.py", EVALUATE)
        self.write("32_96.json", '{"seconds": 6}')
        self.write("80_240.json", '{"seconds": 3}')

    def write(self, name, text):
        with open(os.path.join(self.plans, name), "w") as file:
            file.write(text)

    def lines(self, *lines):
        return list(with_scores([line + "\n" for line in lines], Simulator(self.data)))

    def test_plans_are_followed_by_how_many_times_theirs_they_are_as_fast(self):
        lines = self.lines("seconds_64_devices 2.1", 'plan_sailor_32_96 {"seconds": 4}',
                           'plan_sailor_80_240 {"seconds": 6, "warnings": ["NOT COMPARABLE"]}', "planner_resident_mib 230")
        self.assertEqual(lines, [
            "seconds_64_devices 2.1", 'plan_sailor_32_96 {"seconds": 4}',
            "# 32_96 by Sailor's simulator: ours 4.000 s, fits in memory; theirs 6.000 s", "sailor_simulated_32_96 1.5000",
            'plan_sailor_80_240 {"seconds": 6, "warnings": ["NOT COMPARABLE"]}',
            "# 80_240 by Sailor's simulator: ours 6.000 s, DOES NOT FIT in memory; theirs 3.000 s",
            "# 80_240 by Sailor's simulator: NOT COMPARABLE", "sailor_simulated_80_240 0.5000", "planner_resident_mib 230"])

    def test_a_plan_that_is_refused_is_said_to_be(self):
        plan = 'plan_sailor_32_96 {"refused": "no profile for H100"}'
        self.assertEqual(self.lines(plan), [plan, "# sailor_simulated_32_96 skipped: refused: no profile for H100"])

    def test_why_the_simulator_does_not_run_is_said_once(self):
        plans = ['plan_sailor_32_96 {"seconds": 4}', 'plan_sailor_80_240 {"seconds": 2}']
        for name in ("32_96", "80_240"):
            self.write(name + ".json", '{"imports": "no_module_of_this_name"}')
        lines = self.lines(*plans)
        self.assertEqual([lines[0], *lines[2:]], plans)
        self.assertIn("# sailor_simulated_32_96 skipped: ModuleNotFoundError: No module named 'no_module_of_this_name'; SAILOR_PATH is",
                      lines[1])
        os.remove(os.path.join(self.plans, "evaluate.py"))
        lines = self.lines(*plans)
        self.assertEqual([lines[0], *lines[2:]], plans)
        self.assertRegex(lines[1], r"^# sailor_simulated_32_96 skipped: .*/evaluate.py is not there$")


if __name__ == "__main__":
    unittest.main()
