#!/usr/bin/env python3
"""Every C++ source is as clang-format leaves it (.clang-format), so that one column limit and one layout hold everywhere."""
import os
import subprocess
import unittest

FORMATTER = "clang-format-15"


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "bazel-")) and name != "third_party"]
        for name in files:
            if name.endswith((".h", ".cc")):
                yield os.path.join(folder, name)


def objections(paths):
    result = subprocess.run([FORMATTER, "--dry-run", "--Werror", "--style=file", *paths], capture_output=True, text=True)
    return [line for line in result.stderr.splitlines() if "error:" in line] or ([result.stderr] if result.returncode else [])


class FormatTest(unittest.TestCase):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

    def test_a_line_that_is_too_long_is_found(self):
        planted = os.path.join(os.environ.get("TEST_TMPDIR", "/tmp"), "planted.cc")
        with open(planted, "w", encoding="utf-8") as file:
            file.write("int Sum(int a, int b) { return a + b" + " + a" * 40 + "; }\n")
        style = os.path.join(os.path.dirname(planted), ".clang-format")
        with open(os.path.join(self.root, ".clang-format"), encoding="utf-8") as given, \
                open(style, "w", encoding="utf-8") as copy:
            copy.write(given.read())
        self.assertTrue(objections([planted]))

    def test_every_source_is_formatted(self):
        paths = sorted(sources(self.root))
        self.assertGreater(len(paths), 300)
        found = objections(paths)
        self.assertEqual(found, [], f"run: {FORMATTER} -i " + " ".join(sorted({line.split(":")[0] for line in found})))


if __name__ == "__main__":
    unittest.main()
