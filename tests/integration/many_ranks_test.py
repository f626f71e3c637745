"""More ranks than exchange all with all: scalars go by a tree, and a worker is connected to its peers alone."""
import cluster
from cluster import ClusterTest, core, reference_device, route, unit

RANKS = 10


class ManyRanksTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        devices = [reference_device(core(i), "ref%d" % i, "64MiB") for i in range(RANKS)]
        cls.running = cls.new_cluster()
        # Workers take all the cores there are, and the coordinator answers when it gets its turn.
        cls.running.call_options = ["--timeout", "120"]
        cls.running.start({"a": devices}, links="tcp")

    def replicas_spec(self, name, replicas, **more):
        return self.spec(name, batch={"sequences": RANKS, "sequence_length": 16}, plan={
            "micro_batch_sequences": 1,
            "units": [unit("a/ref%d" % i, 0, 5) for i in range(replicas)],
            "routes": [route([i], RANKS // replicas) for i in range(replicas)]}, communication={"all_reduce": "ring"}, **more)

    def test_replicas_train_as_one_device_does_with_few_connections(self):
        steps = 6
        alone = self.running.submit(self.replicas_spec("alone", 1, steps=steps))
        self.running.wait_for_state(alone, "done")
        together = self.running.submit(self.replicas_spec("together", RANKS, steps=steps))
        self.running.wait_for_state(together, "done")
        self.assert_same_curves(self.running.curve(alone), self.running.curve(together))

        # Ranks 1 to 7 give their scalars to rank 0, 9 gives them to 8, and these two exchange: 9 edges of the tree. The ring that
        # sums gradients has 10, in an order of its own.
        endless = self.running.submit(self.replicas_spec("endless", RANKS, steps=1_000_000))
        self.running.wait_for_step(endless, 2)

        # Those of the job before may take a while to end.
        def workers_of_one_job():
            workers = self.running.workers("a")
            return workers if len(workers) == RANKS else None
        connections = sorted(map(cluster.tcp_connections, cluster.wait_for("%d workers" % RANKS, workers_of_one_job)))
        print("connections of the workers: %s" % connections, flush=True)
        # An edge has at each end one of the session, and of UCX one or, where both ends began, two. Of a full mesh, with 45
        # edges, there would be 180 or more.
        self.assertLessEqual(sum(connections), 3 * 2 * (9 + 10))
        self.running.cli("cancel", endless)
        self.running.wait_for_state(endless, "cancelled")


if __name__ == "__main__":
    cluster.main()
