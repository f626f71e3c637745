"""What the comparisons of this folder share: running programs, reading their figures, pinning and picking."""
import os
import re
import socket
import statistics
import subprocess


def cores(count=2):
    """The first that this process may use. SystemExit where there are fewer."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < count:
        raise SystemExit("needs %d cores, and may use %d" % (count, len(allowed)))
    return allowed[:count]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(arguments, timeout=300, **environment):
    """What it prints. SystemExit with its words if it fails."""
    done = subprocess.run([str(argument) for argument in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **environment})
    if done.returncode != 0:
        raise SystemExit("%s: status %d\n%s%s" % (" ".join(map(str, arguments)), done.returncode, done.stdout, done.stderr))
    return done.stdout


def key_values(text):
    """Of `key value` lines."""
    return {name: float(value) for name, value in re.findall(r"^([A-Za-z]\w*) ([-+.\deE]+)$", text, re.MULTILINE)}


def note(text):
    print("# " + text, flush=True)


def figure(name, value, digits=3):
    print("%s %.*f" % (name, digits, value), flush=True)


def spread(values):
    """For a note: median and range."""
    return "median %.3g, %.3g to %.3g" % (statistics.median(values), min(values), max(values))
