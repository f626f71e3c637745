"""Groups of `collective_peer` processes, each on a host of network_hosts.py or all on this machine."""
import os
import re
import signal
import subprocess
import threading
import time


class Peer:
    """One member's process; its output is read as it comes."""

    def __init__(self, rank, host, arguments):
        self.rank, self.host, self.lines = rank, host, []
        command = host.command(arguments) if host else arguments
        self.process = subprocess.Popen([str(argument) for argument in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def output(self):
        return "rank %d: " % self.rank + "\n        ".join(line for _, line in self.lines)

    def find(self, pattern):
        """(time, match) of the first line with it; None."""
        with self._changed:
            found = ((at, re.search(pattern, line)) for at, line in self.lines)
            return next(((at, match) for at, match in found if match), None)

    def wait_for(self, pattern, seconds=120):
        """The first match. AssertionError if the process ends without one, or does not say it in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or any(re.search(pattern, line) for _, line in self.lines), seconds)
        found = self.find(pattern)
        if not found:
            raise AssertionError("no \"%s\" within %g s of %s" % (pattern, seconds, self.output()))
        return found[1]

    def wait(self, seconds=120):
        """The exit status."""
        status = self.process.wait(seconds)
        self._reader.join(seconds)
        return status

    def all_reduce_seconds(self):
        """By bytes: (best, median) of the times that the slowest member took."""
        found = re.findall(r"^all_reduce_seconds (\d+) (\S+) (\S+)$", "\n".join(line for _, line in self.lines), re.MULTILINE)
        return {int(size): (float(best), float(median)) for size, best, median in found}

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(20)
        self._reader.join(20)
        self.process.stdout.close()


class Group:
    """A process for each of `hosts` (None: this machine), in order of rank; `options` go to all of them. Use
    as a context manager: all are killed at its end. `cores`: where to run, by rank, over and over."""

    def __init__(self, program, directory, hosts, *options, cores=None):
        self.directory = directory
        os.makedirs(directory)
        self.peers = []
        try:
            for rank, host in enumerate(hosts):
                self.add(program, rank, len(hosts), host, *options, core=cores[rank % len(cores)] if cores else None)
        except BaseException:
            self.__exit__()
            raise

    def add(self, program, rank, size, host, *options, core=None):
        pinned = [] if core is None else ["taskset", "-c", core]
        device = ["--network-devices", host.device] if host else []
        self.peers.append(Peer(rank, host, [*pinned, program, "--rank", rank, "--size", size, "--directory", self.directory,
                                            *device, *options]))
        return self.peers[-1]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for peer in self.peers:
            peer.kill()

    def stop(self):
        """Of members that run --forever."""
        with open(os.path.join(self.directory, "stop"), "w"):
            pass

    def wait(self, seconds=120):
        """Until all have ended; AssertionError with their words unless all did well."""
        statuses = [peer.wait(seconds) for peer in self.peers]
        if any(statuses):
            raise AssertionError("statuses %s\n%s" % (statuses, "\n".join(peer.output() for peer in self.peers)))
        return self
