"""Several hosts on this machine: network namespaces with an address each, in sites that a slow link joins.

A host is a namespace with one interface, eth0. The switches of all sites live in one more namespace: a bridge
a site, and between two of them a pair of interfaces whose both ends are limited with `tc ... tbf`. The
machine's own network is neither used nor touched, and deleting the namespaces removes everything. Their names
carry this process's number: what a killed one left behind is removed by the next.
"""
import json
import os
import re
import shutil
import subprocess

_PREFIX = "medley-test"
_DEVICE = "eth0"


# ip and tc, where a user's path leaves them out.
os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class NotPermitted(Exception):
    """Why there can be no network namespaces here."""


def _ip(*arguments, namespace=None, check=True):
    where = ["-n", namespace] if namespace else []
    done = subprocess.run(["ip", *where, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    if check and done.returncode != 0:
        raise OSError("ip %s: %s" % (" ".join([*where, *arguments]), done.stderr.strip()))
    return done.stdout


def _remove_leftovers():
    for name in re.findall(r"^(%s-(\d+)-\S+)" % _PREFIX, _ip("netns", "list"), re.MULTILINE):
        if not os.path.exists("/proc/%s" % name[1]):
            _ip("netns", "delete", name[0], check=False)


class Host:
    """One of the hosts: `name` for people, `address`, and how to run something on it."""

    def __init__(self, name, site, namespace, address, port):
        self.name, self.site, self.namespace, self.address, self.port = name, site, namespace, address, port
        self.device = _DEVICE

    def command(self, arguments):
        """What runs `arguments` on this host, as the same process."""
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def __str__(self):
        return self.name


class NetworkHosts:
    """`sites`: hosts by site: [2, 2] is a0, a1 and b0, b1. `megabits_per_second` of the link between
    neighbouring sites, each way; None: not limited. Use as a context manager. NotPermitted: says why there
    can be none."""

    def __init__(self, sites, megabits_per_second=None):
        self.megabits_per_second = megabits_per_second
        self._namespaces = []
        self._prefix = "%s-%d-%s" % (_PREFIX, os.getpid(), os.urandom(2).hex())
        if os.geteuid() != 0:
            raise NotPermitted("network namespaces need root")
        for program in ("ip", "tc"):
            if not shutil.which(program):
                raise NotPermitted("there is no program %s" % program)
        self.hosts = []
        try:
            _remove_leftovers()
            self._switches = self._add_namespace("switches")
        except OSError as error:
            raise NotPermitted("no network namespaces: %s" % error) from error
        try:
            self._connect(sites)
        except OSError as error:  # a kernel without bridges, or without pairs of interfaces
            self.remove()
            raise NotPermitted("network namespaces cannot be joined: %s" % error) from error
        except BaseException:
            self.remove()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()

    def remove(self):
        """Everything; processes that still run there lose their network. Idempotent."""
        while self._namespaces:
            _ip("netns", "delete", self._namespaces.pop(), check=False)

    def __getitem__(self, name):
        return next(host for host in self.hosts if host.name == name)

    def cut(self, name):
        """The host's cable is pulled: nothing reaches it or comes from it, and nobody is told."""
        _ip("link", "set", self[name].port, "down", namespace=self._switches)

    def join(self, name):
        _ip("link", "set", self[name].port, "up", namespace=self._switches)

    def bytes_from(self, name):
        """That the host has sent so far."""
        shown = _ip("-s", "-j", "link", "show", self[name].port, namespace=self._switches)
        return json.loads(shown)[0]["stats64"]["rx"]["bytes"]

    def _add_namespace(self, name):
        namespace = "%s-%s" % (self._prefix, name)
        _ip("netns", "add", namespace)
        self._namespaces.append(namespace)
        _ip("link", "set", "lo", "up", namespace=namespace)
        return namespace

    def _connect(self, sites):
        for number, count in enumerate(sites):
            letter = chr(ord("a") + number)
            self._add_bridge("site-" + letter)
            for index in range(count):
                self._add_host(letter, index, "10.%d.0.%d" % (number + 1, index + 1))
            if number > 0:
                self._join_sites(chr(ord(letter) - 1), letter)

    def _add_bridge(self, name):
        _ip("link", "add", name, "type", "bridge", namespace=self._switches)
        _ip("link", "set", name, "up", namespace=self._switches)

    def _add_host(self, site, index, address):
        name = "%s%d" % (site, index)
        namespace = self._add_namespace(name)
        port = "port-" + name
        _ip("link", "add", port, "type", "veth", "peer", "name", _DEVICE, "netns", namespace, namespace=self._switches)
        _ip("link", "set", port, "master", "site-" + site, "up", namespace=self._switches)
        _ip("address", "add", address + "/8", "dev", _DEVICE, namespace=namespace)
        _ip("link", "set", _DEVICE, "up", namespace=namespace)
        self.hosts.append(Host(name, site, namespace, address, port))

    def _join_sites(self, a, b):
        ends = ["far-%s-%s" % (a, b), "far-%s-%s" % (b, a)]
        _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1], namespace=self._switches)
        for end, site in zip(ends, (a, b)):
            _ip("link", "set", end, "master", "site-" + site, "up", namespace=self._switches)
            if self.megabits_per_second:
                self._limit(end)

    def _limit(self, end):
        """A bucket that holds 1 ms of the rate, and at least two of the 64 KiB packets that a virtual
        interface may pass in one piece, or these would be dropped; a queue of 50 ms, as much as TCP needs to
        fill the link."""
        burst = max(self.megabits_per_second * 1e6 / 8 * 0.001, 2 * 65536)
        done = subprocess.run(["tc", "-n", self._switches, "qdisc", "add", "dev", end, "root", "tbf", "rate",
                               "%dkbit" % round(self.megabits_per_second * 1000), "burst", "%d" % burst, "latency", "50ms"],
                              capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise NotPermitted("tc cannot limit a link: %s" % done.stderr.strip())


# One socket transfer, to see that a limit is what it says.
_SENDER = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
block = bytes(1 << 18)
for _ in range(int(float(sys.argv[3]) * 1e6) // len(block)): peer.sendall(block)
peer.shutdown(socket.SHUT_WR)
peer.recv(1)
"""
_RECEIVER = """
import socket, time
listener = socket.create_server(("0.0.0.0", 0))
print(listener.getsockname()[1], flush=True)
peer, _ = listener.accept()
count, start = 0, None
while block := peer.recv(1 << 18):
    start = start or time.monotonic()
    count += len(block)
print(count / (time.monotonic() - start), flush=True)
"""


def socket_bytes_per_second(sender, receiver, megabytes):
    """Of one TCP connection between two hosts."""
    python = ["python3", "-c"]
    with subprocess.Popen(receiver.command([*python, _RECEIVER]), stdout=subprocess.PIPE, text=True) as listening:
        try:
            port = listening.stdout.readline().strip()
            subprocess.run(sender.command([*python, _SENDER, receiver.address, port, str(megabytes)]), timeout=120,
                           check=True)
            return float(listening.stdout.readline())
        finally:
            listening.kill()
