"""Starts the daemons as their pods do: commands and files from the manifests, with the places of this machine for those of a pod."""
import os
import shutil
import signal
import subprocess
import threading

from kustomization import pod_specs
from references import configuration_files

# Far beyond what a start or an end takes; a daemon that needs longer is killed, and its test fails.
PATIENCE = 60
PROGRAMS = ("cli/medley", "coordinator/daemon/medley-coordinator", "agent/daemon/medley-agent", "agent/worker/medley-worker")


def gather_programs(root, folder):
    """The programs side by side: they look for each other beside /proc/self/exe, so links will not do."""
    os.makedirs(folder)
    for name in PROGRAMS:
        built = os.environ.get("MEDLEY_BINARIES")
        shutil.copy(os.path.join(built, os.path.basename(name)) if built else os.path.join(root, name), folder)


class Daemon:
    """A process whose standard output is read line by line; killed when nothing comes for too long."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.lines = []

    def kill(self):
        """It, and what it started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait_for(self, words):
        """The first line with `words`. AssertionError: the process ended without."""
        timer = threading.Timer(PATIENCE, self.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))
                if words in line:
                    return self.lines[-1]
        finally:
            timer.cancel()
        raise AssertionError("%s ended without saying \"%s\"; it said: %s" % (self.process.args[0], words, self.lines[-5:]))

    def stop(self, patience):
        """SIGTERM, as Kubernetes ends a pod. The exit status; None: it did not end within `patience` and was killed."""
        self.process.terminate()
        return self.end(patience)

    def end(self, patience):
        try:
            rest, _ = self.process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.communicate()
            return None
        self.lines += rest.splitlines()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.process.communicate()


class Pod:
    """The first pod of a controller on this machine: `folder` stands for its file system."""

    def __init__(self, documents, controller, folder, programs):
        self.folder, self.programs = folder, programs
        self.spec = pod_specs(controller)[0]
        for container in self.spec.get("initContainers", []) + self.spec["containers"]:
            for name, text in configuration_files(documents, self.spec, container).items():
                write(self.place("/etc/medley/" + name), self.adapted(text))
        os.makedirs(self.place("/run/medley"), exist_ok=True)

    def place(self, path):
        return self.folder + path

    def adapted(self, text):
        """Other directories and less memory, any free port, and nothing else."""
        for folder in ("/var/lib/medley", "/run/medley-tls"):
            text = text.replace(folder, self.place(folder))
        return (text.replace("5GiB", "64MiB").replace(":7071", ":0").replace("0.0.0.0:7070", "127.0.0.1:0")
                .replace("0.0.0.0:7080", "127.0.0.1:0").replace("0.0.0.0:7081", "127.0.0.1:0"))

    def command(self, container):
        words = [word.replace("/usr/local/bin", self.programs) for word in container["command"]]
        return [word.replace(" /etc/medley", " " + self.place("/etc/medley")).replace("/run/medley", self.place("/run/medley"))
                if not word.startswith("/") else self.place(word) if word.startswith(("/etc/medley", "/run/medley")) else word
                for word in words]

    def prepare(self, values):
        """Runs the init containers. `values`: what the cluster says by the downward API, by field path."""
        for container in self.spec.get("initContainers", []):
            environment = {}
            for one in container["env"]:
                environment[one["name"]] = values[one["valueFrom"]["fieldRef"]["fieldPath"]] if "valueFrom" in one else one["value"]
            for name in environment:
                for other, value in environment.items():
                    environment[name] = environment[name].replace("$(%s)" % other, value)
            subprocess.run(self.command(container), env={"PATH": "/usr/bin:/bin", **environment}, check=True, timeout=PATIENCE)

    def start(self, **more):
        """`more`: further variables."""
        container = self.spec["containers"][0]
        return Daemon(self.command(container), {**{one["name"]: self.adapted(one["value"]) for one in container.get("env", [])}, **more})


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
