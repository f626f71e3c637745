#!/usr/bin/env python3
"""Completion and manual pages, which are made of what the programs say of themselves, have all that they say."""
import gzip
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
from packages import run_cases  # noqa: E402

FISH, ZSH = "usr/share/fish/vendor_completions.d/medley.fish", "usr/share/zsh/vendor-completions/_medley"


class HelpTest(packages.PackagesTest):
    """What medley says of itself is read from its help here by other means than the packages' build has."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.commands = {}
        cls.nested = {}  # "certs issue"
        for name in cls.names_in(cls.medley("--help")):
            said = cls.medley(name, "--help")
            cls.commands[name] = cls.options_in(said)
            for below in cls.names_in(said):
                cls.nested["%s %s" % (name, below)] = cls.options_in(cls.medley(name, below, "--help"))
        cls.common = cls.options_in(cls.medley("--help"))

    @classmethod
    def medley(cls, *arguments):
        return subprocess.check_output([os.path.join(cls.root, "usr/bin/medley"), *arguments], text=True)

    @staticmethod
    def names_in(text):
        return re.findall(r"^  (\S+)", text.partition("\nSubcommands:\n")[2], re.MULTILINE)

    @staticmethod
    def options_in(text):
        lines = re.findall(r"^  (-\S+)", text, re.MULTILINE)
        return {option for line in lines for option in line.split(",") if option.startswith("-")}

    @classmethod
    def below(cls, command):
        return {name.split()[1] for name in cls.nested if name.split()[0] == command}

    def test_this_test_reads_the_help(self):
        self.assertGreater(len(self.commands), 20)
        self.assertLessEqual({"--watch", "--set", "-h", "--help"}, self.commands["submit"])
        self.assertLessEqual({"--coordinator", "--output", "--timeout"}, self.common)
        self.assertLessEqual({"--authority", "--role", "--host"}, self.nested["certs issue"])

    def test_bash_completes_every_command_and_option(self):
        def offered(*words):
            script = 'source "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _medley; printf "%s\\n" "${COMPREPLY[@]}"'
            return set(subprocess.check_output(
                ["bash", "-c", script, "bash", self.path("usr/share/bash-completion/completions/medley"), "medley", *words],
                text=True).split())

        self.assertEqual(offered(""), set(self.commands) | self.common)
        for name, options in self.commands.items():
            self.assertEqual(offered(name, "-"), options | self.common, name)
        self.assertEqual(offered("submit", "--wat"), {"--watch"})
        for name in self.commands:
            self.assertEqual(offered(name, "") - self.commands[name] - self.common, self.below(name), name)
        for name, options in self.nested.items():
            self.assertEqual(offered(*name.split(), ""), options | self.common, name)
            self.assertEqual(offered(*name.split()), {name.split()[1]}, name)

    def test_zsh_names_every_command_and_option(self):
        text = self.packages["medley"].text(ZSH)
        self.assertTrue(text.startswith("#compdef medley\n"))
        for name, options in self.commands.items():
            self.assertRegex(text, r"(?m)^    '%s:" % name)
            words = re.search(r"(?m)^    %s\) words='(.*)' ;;$" % name, text)[1].split()
            self.assertEqual(set(words), options | self.common | self.below(name))
        for name, options in self.nested.items():
            words = re.search(r"(?m)^    '%s'\) words='(.*)' ;;$" % name, text)[1].split()
            self.assertEqual(set(words), options | self.common)

    def test_fish_names_every_command_and_option(self):
        found = {}
        for line in self.packages["medley"].text(FISH).splitlines():
            command = re.match(r"complete -c medley -n '__fish_seen_subcommand_from (\S+)' -(l|s) (\S+)", line)
            if command:
                found.setdefault(command[1], set()).add(("--" if command[2] == "l" else "-") + command[3])
            elif " -n __fish_use_subcommand -a " in line:
                found.setdefault(line.split(" -a ")[1].split()[0], set())
        self.assertEqual(found, self.commands)
        found, offered = {}, set()
        for line in self.packages["medley"].text(FISH).splitlines():
            option = re.match(r"complete -c medley -n '__fish_seen_subcommand_from (\S+); and __fish_seen_subcommand_from (\S+)' "
                              r"-(l|s) (\S+)", line)
            if option:
                found.setdefault("%s %s" % (option[1], option[2]), set()).add(("--" if option[3] == "l" else "-") + option[4])
            name = re.match(r"complete -c medley -n '__fish_seen_subcommand_from (\S+); and not __fish_seen_subcommand_from "
                            r"(.*)' -a (\S+)", line)
            if name:
                offered.add("%s %s" % (name[1], name[3]))
                self.assertEqual(set(name[2].split()), self.below(name[1]))
        self.assertEqual(found, self.nested)
        self.assertEqual(offered, set(self.nested))

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh_reads_its_completion(self):
        subprocess.check_call(["zsh", "-n", self.path(ZSH)])

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish_reads_its_completion(self):
        subprocess.check_call(["fish", "--no-execute", self.path(FISH)])

    def test_manual_pages_have_every_command_option_and_field(self):
        page = self.manual("medley")
        for name, options in {**self.commands, **self.nested}.items():
            section = re.search(r'(?ms)^\.SS "medley %s \[OPTIONS\].*?(?=^\.S[SH] )' % re.escape(name.replace("-", "\\-")), page)[0]
            entries = re.findall(r"(?m)^\\fB(\S+).*\\fR$|^\\fB(\S+)\\fR$", section.replace("\\-", "-"))
            named = {option for entry in entries for option in "".join(entry).split(",") if option.startswith("-")}
            self.assertEqual(named, options - {"-h", "--help"}, name)
        for name, fields in [("coordinator", {"CoordinatorConfig"}), ("agent", {"AgentConfig", "Device"})]:
            written = re.findall(r"(?m)^\\fB(\w+) \(", self.manual("medley-" + name))
            self.assertEqual(sorted(written), sorted(field for message in fields for field in packages.fields_of(message)))

    @unittest.skipUnless(shutil.which("groff"), "there is no groff")
    def test_manual_pages_are_read_without_a_warning(self):
        for name in ("medley", "medley-coordinator", "medley-agent"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z"], input=self.manual(name), text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def manual(self, name):
        section = 1 if name == "medley" else 8
        text = gzip.decompress(self.packages[name].content["usr/share/man/man%d/%s.%d.gz" % (section, name, section)][1]).decode()
        self.assertNotRegex(text, r"@\w+@")
        return text


if __name__ == "__main__":
    run_cases.main()
