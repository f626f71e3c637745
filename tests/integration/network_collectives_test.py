"""Sums over several hosts, which are network namespaces of this machine: two sites of two, joined by a slow
link."""
import os
import shutil
import tempfile
import time
import unittest

import network_hosts
import run_cases
from network_group import Group

PEER = os.path.abspath("tests/integration/collective_peer")
RANKS = ["a0", "a1", "b0", "b1"]
FAILS_WITHIN_SECONDS = 60  # five on a machine that does nothing else; what waits for a peer itself does so for two minutes
MEGABYTE = 1 << 20


def wait_for(what, condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not within %g s: %s" % (seconds, what))
        time.sleep(0.01)  # between looks, not instead of them


class NetworkCollectivesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.hosts = network_hosts.NetworkHosts([2, 2], megabits_per_second=200)
        except network_hosts.NotPermitted as why:
            raise unittest.SkipTest(str(why))
        cls.addClassCleanup(cls.hosts.remove)
        cls.directory = tempfile.mkdtemp(prefix="network-collectives.", dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)

    def group(self, name, hosts, *options):
        group = Group(PEER, os.path.join(self.directory, name), [self.hosts[host] for host in hosts], *options)
        self.addCleanup(group.__exit__)
        return group

    def test_every_algorithm_gives_all_hosts_the_same_bits(self):
        sizes = [4, 4 * 1001, MEGABYTE]
        for algorithm in (["ring"], ["halving-doubling"], ["tree"], ["hierarchical", "--groups", "2,2"]):
            with self.subTest(algorithm=algorithm[0]):
                group = self.group(algorithm[0], RANKS, "--algorithm", *algorithm, "--seconds", 0.1,
                                   "--bytes", ",".join(map(str, sizes))).wait()
                for size in sizes:
                    sums = {peer.wait_for(r"^checksum %d (\w+)$" % size)[1] for peer in group.peers}
                    self.assertEqual(len(sums), 1, "\n".join(peer.output() for peer in group.peers))

    def test_two_members_a_host_sum_through_memory_and_network(self):
        group = self.group("two-a-host", [name for name in RANKS for _ in range(2)], "--algorithm", "hierarchical", "--groups",
                           "4,4", "--bytes", MEGABYTE, "--seconds", 0.1).wait()
        self.assertEqual(len({peer.wait_for(r"^checksum \d+ (\w+)$")[1] for peer in group.peers}), 1)

    def test_a_host_cut_off_in_the_middle_fails_all_others_by_name(self):
        for algorithm in (["ring"], ["hierarchical", "--groups", "2,2"]):
            with self.subTest(algorithm=algorithm[0]):
                self.hosts.join("b0")
                group = self.group("cut-" + algorithm[0], RANKS, "--algorithm", *algorithm, "--bytes", 64 * MEGABYTE,
                                   "--patience", 120, "--forever")
                for peer in group.peers:
                    peer.wait_for("^summing$")
                victim = 2
                before = self.hosts.bytes_from(RANKS[victim])
                # The victim sends more than the vector in each round.
                wait_for("a part of the sum", lambda: self.hosts.bytes_from(RANKS[victim]) > before + 16 * MEGABYTE)
                self.hosts.cut(RANKS[victim])
                self.addCleanup(self.hosts.join, RANKS[victim])
                cut = time.monotonic()
                for peer in group.peers:
                    if peer.rank == victim:
                        continue
                    failed = peer.wait_for(r"^failed (\S+) (.*)$", FAILS_WITHIN_SECONDS)
                    after = peer.find("^failed ")[0] - cut
                    print("%s: rank %d failed %.1f s after the cut: %s" % (algorithm[0], peer.rank, after, failed[2]), flush=True)
                    self.assertIn("rank %d is gone" % victim, failed[2])
                    self.assertNotIn("scalars", failed[2])
                    self.assertIn("UNAVAILABLE", failed[2])

    def test_a_host_that_comes_back_with_an_old_attempt_is_refused_and_harms_nobody(self):
        old = self.group("old-attempt", ["a0", "a1", "b0"], "--algorithm", "ring", "--bytes", 64 * MEGABYTE, "--attempt", 1,
                         "--patience", 120, "--forever")
        for peer in old.peers:
            peer.wait_for("^joined$")
        self.hosts.cut("b0")
        self.addCleanup(self.hosts.join, "b0")
        for peer in old.peers[:2]:
            peer.wait_for("^failed .*rank 2", FAILS_WITHIN_SECONDS)
        new = self.group("new-attempt", ["a0", "a1"], "--algorithm", "ring", "--bytes", MEGABYTE, "--attempt", 2, "--secret",
                         "the secret of the next attempt", "--forever")
        for peer in new.peers:
            peer.wait_for("^checksum ")
        self.hosts.join("b0")
        # What is left of it there ends; and whoever finds the new attempt's addresses, with the old number or the old secret,
        # is turned away.
        old.peers[2].wait_for("^failed ", FAILS_WITHIN_SECONDS)
        for name, expected, options in [("number", "INVALID_ARGUMENT.*attempt", ["--attempt", 1]),
                                        ("secret", "PERMISSION_DENIED|UNAVAILABLE", ["--attempt", 2])]:
            with self.subTest(old=name):
                # As rank 1, which dials rank 0.
                intruder = os.path.join(self.directory, "intruder-" + name)
                os.makedirs(intruder)
                shutil.copy(os.path.join(new.directory, "rank.0"), intruder)
                stray = Group(PEER, os.path.join(intruder, "none"), [])
                stray.directory = intruder
                self.addCleanup(stray.__exit__)
                peer = stray.add(PEER, 1, 2, self.hosts["b0"], "--bytes", MEGABYTE, "--patience", 60, *options)
                failed = peer.wait_for(r"^failed (\S+) (.*)$")
                print("old %s: %s" % (name, failed[2]), flush=True)
                self.assertRegex(failed[2], expected)
        new.stop()
        new.wait()
        self.assertEqual(len({peer.wait_for(r"^checksum \d+ (\w+)$")[1] for peer in new.peers}), 1)
        self.assertGreaterEqual(int(new.peers[0].wait_for(r"^refused_connections (\d+)$")[1]), 1)


if __name__ == "__main__":
    run_cases.main()
