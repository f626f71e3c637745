"""How near a mixed cluster can come to the sum of its parts where sequences, layers and heads are whole.

Arithmetic over what devices were measured to take for their passes: messages, sums of gradients and updates cost nothing, and passes
go in whichever order is best. What is left between a limit and 1 is the discretisation's, and a pipeline's fill.
"""
import itertools
import math


class Times:
    """Seconds of a kind of device, by the sequences in a micro-batch; `listed`: as the coordinator lists a profile's times."""

    def __init__(self, listed):
        self.by_size = {int(times["micro_batch_sequences"]): times for times in listed}

    def stage(self, size, layers, first, last):
        """(forward, backward, what of the backward can be put off) of one micro-batch."""
        times = self.by_size[size]
        forward, backward = (layers * times["layer_%s_seconds" % way] + (first and times["embedding_%s_seconds" % way]) +
                             (last and times["head_%s_seconds" % way]) for way in ("forward", "backward"))
        return forward, backward, layers * times.get("layer_weight_gradient_seconds", 0)

    def whole(self, size, layers):
        """Of both passes of one micro-batch through all layers."""
        return sum(self.stage(size, layers, True, True)[:2])


def cuts(blocks, stages):
    """All ways to give each stage some of them."""
    for ends in itertools.combinations(range(1, blocks), stages - 1):
        yield [end - first for first, end in zip((0,) + ends, ends + (blocks,))]


def pipeline_seconds(stages, micro_batches):
    """Of a step by itself no order of the passes is faster. A stage waits for the first micro-batch to come through those before it;
    after its last input gradient, they still have theirs, and the first one the weights' gradient."""
    before_forward = before_gradient = longest = 0
    for forward, backward, put_off in stages:
        busy = micro_batches * (forward + backward)
        ends = max(busy, micro_batches * (forward + backward - put_off) + before_gradient + (before_gradient and stages[0][2]))
        longest = max(longest, before_forward + ends)
        before_forward += forward
        before_gradient += backward - put_off
    return longest


class Job:
    """layers, and the sequences that a micro-batch may have; staggered: steps follow each other without a barrier."""

    def __init__(self, times_of_kind, layers, sizes, staggered=False):
        self.times, self.layers, self.sizes, self.staggered = times_of_kind, layers, sizes, staggered
        self._routes = {}

    def work_seconds(self, counts, sequences):
        """Of devices that share the work of `sequences` as finely as one likes: nothing is faster."""
        rate = sum(n * max(size / self.times[kind].whole(size, self.layers) for size in self.sizes) for kind, n in counts)
        return sequences / rate if rate else 0 if sequences == 0 else math.inf

    def route_seconds(self, counts, sequences):
        """The least time of `sequences` through one pipeline of so many devices of each kind."""
        return self.best_pipeline(counts, sequences)[0]

    def best_pipeline(self, counts, sequences):
        """(seconds, kinds in their order, how many blocks each has, sequences of a micro-batch)"""
        key = counts, sequences
        if key not in self._routes:
            found = [self._of_order(order, size, sequences // size)
                     for order in sorted(set(itertools.permutations(sum(((kind,) * n for kind, n in counts), ()))))
                     for size in self.sizes if sequences % size == 0]
            self._routes[key] = min(found, key=lambda pipeline: pipeline[0], default=(math.inf, (), [], 0))
        return self._routes[key]

    def _staggered(self, order, size, micro_batches):
        """The busiest stage's work, of the best cuts: by how many blocks the stages so far have."""
        end, best = len(order) - 1, {0: (0, [])}
        for s, kind in enumerate(order):
            now = {}
            for before, (longest, blocks) in best.items():
                most = self.layers + 2 - before - (end - s)
                for count in range(1 if s < end else most, most + 1):
                    forward, backward, _ = self.times[kind].stage(size, count - (s == 0) - (s == end), s == 0, s == end)
                    seconds = max(longest, micro_batches * (forward + backward))
                    if before + count not in now or seconds < now[before + count][0]:
                        now[before + count] = seconds, blocks + [count]
            best = now
        seconds, blocks = best[self.layers + 2]
        return seconds, order, blocks, size

    def _of_order(self, order, size, micro_batches):
        if self.staggered:
            return self._staggered(order, size, micro_batches)
        least, best, end = math.inf, [], len(order) - 1
        for blocks in cuts(self.layers + 2, len(order)):
            stages = [self.times[kind].stage(size, count - (s == 0) - (s == end), s == 0, s == end)
                      for s, (kind, count) in enumerate(zip(order, blocks))]
            if micro_batches * max(forward + backward for forward, backward, _ in stages) >= least:
                continue
            seconds = pipeline_seconds(stages, micro_batches)
            if seconds < least:
                least, best = seconds, blocks
        return least, order, best, size

    def step_seconds(self, counts, sequences, most_routes=None, most_stages=None):
        """The least time of a step of `sequences` on routes of devices; counts: {kind: number}. Devices may be left out."""
        kinds = sorted(counts)
        everything = tuple(counts[kind] for kind in kinds)
        devices = sum(everything)
        routes = most_routes or devices
        choices = [choice for choice in itertools.product(*(range(n + 1) for n in everything))
                   if 0 < sum(choice) <= (most_stages or devices)]
        known = {}

        def best(free, left, routes, last):
            """Of routes whose choices come no earlier than the last one's."""
            if left == 0:
                return 0
            key = free, left, routes, last
            if routes == 0 or key in known:
                return known.get(key, math.inf)
            least = math.inf
            for index in range(last, len(choices)):
                rest = tuple(have - taken for have, taken in zip(free, choices[index]))
                if min(rest) < 0:
                    continue
                of_route = tuple((kind, n) for kind, n in zip(kinds, choices[index]) if n)
                for sequences in range(1, left + 1) if routes > 1 else (left,):
                    if max(self.work_seconds(of_route, sequences), self.work_seconds(zip(kinds, rest), left - sequences)) >= least:
                        continue
                    longest = self.route_seconds(of_route, sequences)
                    if longest < least:
                        least = min(least, max(longest, best(rest, left - sequences, routes - 1, index)))
            known[key] = least
            return least

        return best(everything, sequences, routes, 0)

    def shared_step_seconds(self, kinds, sequences, heads):
        """Of one device of each of `kinds`, which share every layer by whole heads."""
        return min(max(share / heads * self.route_seconds(((kind, 1),), sequences) for kind, share in zip(kinds, shares))
                   for shares in cuts(heads, len(kinds)))


def limit(mixed_seconds, parts_seconds):
    """Of the throughput over the sum of the parts'."""
    return 1 / mixed_seconds / sum(1 / seconds for seconds in parts_seconds)
