"""Both daemons behave as a service manager and an operator expect: options, variables, signals, and what they say of themselves."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import cluster
from cluster import program, wait_for, write_file

CONFIGURATIONS = {
    "medley-coordinator": "listen_address: 127.0.0.1:0\nstate_directory: %s/state\n",
    # Nobody answers it: an agent serves without a coordinator, too.
    "medley-agent": "name: n1\ncoordinator_address: 127.0.0.1:1\ndevices: [{name: cpu0, backend: cpu, cores: [0], memory_bytes: 64MiB}]\n",
}


class DaemonsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def configuration(self, name, more=""):
        text = CONFIGURATIONS[name]
        return write_file(os.path.join(self.directory, name + ".yaml"), (text % self.directory if "%s" in text else text) + more)

    def run_daemon(self, name, *arguments, **variables):
        """To its end."""
        return subprocess.run([program(name), *arguments], env={**os.environ, **variables}, capture_output=True, text=True,
                              timeout=120)

    def test_a_configuration_is_checked_without_serving(self):
        for name in CONFIGURATIONS:
            with self.subTest(name):
                done = self.run_daemon(name, "--config", self.configuration(name), "--check-config")
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "the configuration is in order\n", ""))
                wrong = self.configuration(name, "log_level: loud\n")
                done = self.run_daemon(name, "--config", wrong, "--check-config")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, r'^%s: .*%s.yaml:\d+: log_level: .*"loud".*\n$' % (name, name))
                self.assertFalse(os.path.exists(os.path.join(self.directory, "state")))

    def test_what_may_be_mended_from_outside_is_no_wrong_configuration_unless_it_is_checked(self):
        """An agent without its worker: a service manager tries again what ends with 1."""
        alone = shutil.copy(program("medley-agent"), self.directory)
        for options, status in (([], 1), (["--check-config"], 2)):
            done = subprocess.run([alone, "--config", self.configuration("medley-agent"), *options], capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn("medley-worker belongs beside medley-agent", done.stderr)

    def test_what_is_wrong_with_options_and_variables_is_said_once(self):
        for name in CONFIGURATIONS:
            with self.subTest(name):
                done = self.run_daemon(name, "--confg")
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, r"^%s: .*--confg.* \(%s --help\)\n$" % (name, name))
                done = self.run_daemon(name, "--version")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"^%s \d+\.\d+\n$" % name)
                done = self.run_daemon(name, "--config", os.path.join(self.directory, "none.yaml"))
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
                variable = name.upper().replace("-", "_") + "_LISTEN_ADRESS"
                done = self.run_daemon(name, "--check-config", **{variable: "127.0.0.1"})
                self.assertEqual(done.returncode, 2)
                self.assertIn("%s: is set in the environment, and is of no field; did you mean" % variable, done.stderr)

    def test_the_configuration_in_effect_is_shown_and_reads_back(self):
        for name in CONFIGURATIONS:
            with self.subTest(name):
                variable = name.upper().replace("-", "_") + "_LOG_LEVEL"
                file = self.configuration(name, "log_level: error\n")
                shown = self.run_daemon(name, "--config", file, "--show-config", **{variable: "warning"})
                self.assertEqual((shown.returncode, shown.stderr), (0, ""))
                self.assertIn("log_level: warning\n", shown.stdout)
                self.assertIn({"medley-coordinator": "lease_seconds: 6\n",
                               "medley-agent": "work_without_coordinator_seconds: 86400\n"}[name], shown.stdout)
                again = self.run_daemon(name, "--config", write_file(os.path.join(self.directory, "again.yaml"), shown.stdout),
                                        "--show-config")
                self.assertEqual(again.stdout, shown.stdout)

    def test_backups_that_cannot_be_made_are_refused_by_their_field(self):
        for backup, field in [("{keep: 3}", "backup.directory"), ("{directory: d, keep: 0}", "backup.keep: 0"),
                              ("{directory: d, every_hours: 0}", "backup.every_hours: 0"), ("{directory: d, every: 24}", "every_hours")]:
            file = self.configuration("medley-coordinator", "backup: %s\n" % backup)
            done = self.run_daemon("medley-coordinator", "--config", file, "--check-config")
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
            self.assertIn(field, done.stderr)
        file = self.configuration("medley-coordinator", "backup: {directory: d}\n")
        shown = self.run_daemon("medley-coordinator", "--config", file, "--show-config").stdout
        self.assertRegex(shown, r"(?m)^ +every_hours: 24$")
        self.assertRegex(shown, r"(?m)^ +keep: 7$")

    def test_a_coordinator_whose_backups_cannot_be_written_says_so_and_goes_on(self):
        folder = os.path.join(self.directory, "missing", "backups")
        file = self.configuration("medley-coordinator", "backup: {directory: %s}\n" % folder)
        log_file = os.path.join(self.directory, "backup.log")
        with open(log_file, "w") as log:
            child = subprocess.Popen([program("medley-coordinator"), "--config", file], stdout=log, stderr=log)
        self.addCleanup(child.kill)

        def logged(*texts):
            with open(log_file) as file:
                said = file.read()
            return all(text in said for text in texts)

        wait_for("it listens and tells of the folder", lambda: logged("coordinator listens at ", "backup: create directory %s: No such" % folder))
        child.terminate()
        self.assertEqual(child.wait(), 0)

    def test_the_service_manager_hears_of_a_daemon_from_its_start_to_its_stop(self):
        for name in CONFIGURATIONS:
            with self.subTest(name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind("")  # the kernel chooses a name, which needs no directory
                at = "@" + manager.getsockname()[1:].decode()
                manager.settimeout(120)
                log_file = os.path.join(self.directory, name + ".log")
                with open(log_file, "w") as log:
                    child = subprocess.Popen([program(name), "--config", self.configuration(name)], stdout=log, stderr=log,
                                             env={**os.environ, "NOTIFY_SOCKET": at, "WATCHDOG_USEC": "300000"})
                self.addCleanup(child.kill)

                def logged(text):
                    def look():
                        with open(log_file) as file:
                            return text in file.read()
                    wait_for("the log says: " + text, look)

                def hear():
                    """The next message that is not of the watchdog."""
                    message = b"WATCHDOG=1"
                    while message == b"WATCHDOG=1":
                        message = manager.recv(4096)
                    return message.decode()

                self.assertRegex(hear(), r"^READY=1\nSTATUS=listens at 127\.0\.0\.1:\d+")
                self.assertEqual(manager.recv(4096), b"WATCHDOG=1")
                later = {"medley-coordinator": "lease_seconds: 7\n", "medley-agent": "network_cards: 2\n"}[name]
                self.configuration(name, "log_level: debug\n" + later)
                child.send_signal(signal.SIGHUP)
                self.assertRegex(hear(), r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
                self.assertEqual(hear(), "READY=1")
                logged("read the configuration again; log_level has changed; these take effect at the next start: " + later.split(":")[0])
                self.configuration(name, "no_field: 1\n")
                child.send_signal(signal.SIGHUP)
                logged("the configuration stays as it was: ")
                self.assertIsNone(child.poll())
                child.send_signal(signal.SIGTERM)
                self.assertEqual((hear(), hear(), hear())[2], "STOPPING=1")  # behind the second reload
                self.assertEqual(child.wait(120), 0)


if __name__ == "__main__":
    cluster.main()
