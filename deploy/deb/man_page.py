#!/usr/bin/env python3
"""Fills the template of a manual page: man_page.py --program MEDLEY --proto FOLDER TEMPLATE [NAME=VALUE]...

A line of the template that is one of these is replaced:
  @options@          the options that MEDLEY has for all commands, by its --help
  @commands@         each of its commands, and theirs, by the --help of that
  @fields MESSAGE@   the fields of a message in FOLDER's proto files, with their comments
and @NAME@ within a line, by VALUE. So nothing that a page lists can be older than the programs.
"""
import argparse
import glob
import os
import re
import subprocess
import sys


def escaped(text):
    """As roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def entry(name, what):
    return [".TP", "\\fB%s\\fR" % escaped(name), escaped(what or "(see above)")]


def help_sections(text):
    """What a program's --help says: {"Options": [(name, what)], ...}, and under None its lines before the first section."""
    sections, section = {None: []}, None
    for line in text.splitlines():
        heading = re.fullmatch(r"(\S.*):", line)
        item = re.fullmatch(r"  (\S.*?)(?:\s{2,}(\S.*))?", line)
        if heading and not line.startswith("Usage:"):
            section = heading[1]
            sections[section] = []
        elif section is None:
            sections[None].append(line)
        elif item and not line.startswith("   "):
            sections[section].append((item[1], item[2] or ""))
        elif line.strip():  # what a name was too long for, or a second line
            name, what = sections[section][-1]
            sections[section][-1] = (name, (what + " " + line.strip()).strip())
    return sections


def help_of(program, *command):
    done = subprocess.run([program, *command, "--help"], capture_output=True, text=True, check=True)
    return help_sections(done.stdout)


def options(program):
    return [line for name, what in help_of(program)["Options"] for line in entry(name, what)]


def commands(program, *above):
    """Each command below `above`, and below that its own."""
    lines = []
    for name, _ in help_of(program, *above)["Subcommands"]:
        said = help_of(program, *above, name)
        before = [line.strip() for line in said[None] if line.strip()]
        usage = next(line[len("Usage: "):] for line in before if line.startswith("Usage: "))
        lines += ['.SS "%s"' % escaped(usage).replace('"', '""')]
        lines += [escaped(line) for line in before if not line.startswith("Usage: ")]
        for section in ("Positionals", "Options"):
            for option, what in said.get(section, []):
                if option != "-h,--help":
                    lines += entry(option, what)
        if "Subcommands" in said:
            lines += commands(program, *above, name)
    return lines


def message_fields(proto, message):
    """(name, type, comment) of each field of a message in the text of a proto file; None where it is not there."""
    found = re.search(r"^message %s \{\n(.*?)^\}" % re.escape(message), proto, re.MULTILINE | re.DOTALL)
    if not found:
        return None
    fields, comment = [], []
    for line in map(str.strip, found[1].splitlines()):
        field = re.match(r"((?:repeated |optional )?[\w.]+) (\w+) = \d+", line)
        if line.startswith("//"):
            comment.append(line[2:].strip())
        elif field:
            fields.append((field[2], field[1].replace("optional ", ""), " ".join(comment)))
            comment = []
    return fields


def values_of(proto, kind):
    """How the values of an enum of a proto file are written in YAML; empty where `kind` is none of its enums."""
    found = re.search(r"^enum %s \{\n(.*?)^\}" % re.escape(kind), proto, re.MULTILINE | re.DOTALL)
    names = re.findall(r"(\w+) = \d+", found[1]) if found else []
    prefix = os.path.commonprefix(names)
    return [name[len(prefix):].lower() for name in names if not name.endswith("_UNSPECIFIED")]


def fields(folder, message):
    for path in sorted(glob.glob(os.path.join(folder, "*.proto"))):
        with open(path, encoding="utf-8") as file:
            proto = file.read()
        found = message_fields(proto, message)
        if found is not None:
            return [line for name, kind, what in found
                    for line in entry("%s (%s)" % (name, " or ".join(values_of(proto, kind)) or kind), what)]
    raise SystemExit("man_page.py: no message %s in %s" % (message, folder))


def page(template, program, proto, values):
    lines = []
    for line in template.splitlines():
        asked = re.fullmatch(r"@fields (\w+)@", line)
        if line == "@options@":
            lines += options(program)
        elif line == "@commands@":
            lines += commands(program)
        elif asked:
            lines += fields(proto, asked[1])
        else:
            lines.append(re.sub(r"@(\w+)@", lambda name: escaped(values[name[1]]), line))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Fills the template of a manual page.")
    parser.add_argument("--program", required=True)
    parser.add_argument("--proto", required=True)
    parser.add_argument("template")
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE")
    given = parser.parse_args()
    with open(given.template, encoding="utf-8") as file:
        template = file.read()
    values = dict(value.split("=", 1) for value in given.values)
    sys.stdout.write(page(template, given.program, given.proto, values))


if __name__ == "__main__":
    main()
