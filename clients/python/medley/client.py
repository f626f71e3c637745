"""A client of a Medley coordinator."""
from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from .columns import Steps, columns_of
from .connection import Connection
from .errors import InvalidArgument, Unavailable
from .spec import Spec, read_spec, word
from .v1 import cluster_pb2, coordinator_pb2 as wire, job_pb2, node_check_pb2, plan_pb2

_BETWEEN_TRIES_SECONDS = 0.5
_BETWEEN_LOOKS_SECONDS = 1.0
_MOST_LINES = 100_000
_USUAL_SECONDS, _LONG_SECONDS, _MEASURING_SECONDS = 10.0, 300.0, 3600.0
_ENDED = (job_pb2.JOB_STATE_DONE, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED)


def state_of(job: job_pb2.Job) -> str:
    """ "queued", "running", "done", ... """
    return word(job_pb2.JobState.DESCRIPTOR, job.state)


def has_ended(job: job_pb2.Job) -> bool:
    return job.state in _ENDED


class _Seen:
    """What a watcher was told already, of a job that may go back to its checkpoint."""

    def __init__(self, after_step: int) -> None:
        self._after_step = after_step
        self._attempt = self._step = self._validation = 0
        self.job: job_pb2.Job | None = None

    def watch_after(self) -> int:
        """Newer attempts may have begun anew after the newest checkpoint that was heard of, but not before it."""
        return max(self._after_step, min(self._step, self.job.checkpoint_step) if self.job is not None else 0)

    def news_of(self, update: wire.JobUpdate) -> wire.JobUpdate | None:
        news, changed = wire.JobUpdate(), False
        if update.HasField("job"):
            changed = update.job != self.job
            self.job = job_pb2.Job()
            self.job.CopyFrom(update.job)
        if self.job is not None:
            news.job.CopyFrom(self.job)
        for step in update.steps:
            if (step.attempt, step.step) <= (self._attempt, self._step):
                continue
            if step.step <= self._step:
                self._validation = min(self._validation, step.step - 1)
            self._attempt, self._step = step.attempt, step.step
            news.steps.append(step)
        for validation in update.validations:
            if validation.step > self._validation:
                self._validation = validation.step
                news.validations.append(validation)
        return news if changed or news.steps or news.validations else None


class Client:
    """Calls raise MedleyError's classes and end within `timeout` seconds, ten without one. Those that plan, measure or copy end when
    they have ended or the coordinator's host is gone; with a `timeout` within ten times as many, five minutes at least. For any thread."""

    def __init__(self, address: str | None = None, certificates: str | os.PathLike[str] | None = None,
                 timeout: float | None = None) -> None:
        """As the command line: MEDLEY_COORDINATOR or 127.0.0.1:7070; the folder of MEDLEY_CERTIFICATES, or that of the user's
        configuration where it has certificates. Connects with the first call."""
        self._connection = Connection(address, certificates, timeout or _USUAL_SECONDS)
        self._long = max(10 * (timeout or _USUAL_SECONDS), _LONG_SECONDS)
        self._patience = self._long if timeout else math.inf

    @property
    def address(self) -> str:
        return self._connection.address

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # Jobs.

    def submit(self, spec: Spec, request_id: str = "") -> job_pb2.Job:
        """Queues a job. A repeat with the same request_id is the same job."""
        request = wire.SubmitJobRequest(spec=read_spec(spec), request_id=request_id)
        return self._connection.ask("SubmitJob", request, wire.SubmitJobResponse).job

    def jobs(self, limit: int = 0) -> list[job_pb2.Job]:
        """Newest first, each with what lists show: job() has all of one. 0: 100."""
        return list(self._connection.ask("ListJobs", wire.ListJobsRequest(limit=limit), wire.ListJobsResponse).jobs)

    def job(self, job_id: str) -> job_pb2.Job:
        return self._connection.ask("GetJob", wire.GetJobRequest(job_id=job_id), job_pb2.Job)

    def watch(self, job_id: str, after_step: int = 0, silence: float = 60.0, patience: float = 3600.0) -> Iterator[wire.JobUpdate]:
        """The job, with the steps and validations since the last update, until it has ended.

        A coordinator that goes away, or says nothing for `silence` seconds, is asked again and goes on behind the last step that
        was told. Unavailable: it has been away for `patience` seconds, or was from the start. A job that lost a device goes on
        from its checkpoint: its steps from there on come again, of a newer attempt.
        """
        seen, away_since = _Seen(after_step), None
        while True:
            request = wire.WatchJobRequest(job_id=job_id, after_step=seen.watch_after())
            try:
                for update in self._connection.listen("WatchJob", request, wire.JobUpdate, silence):
                    away_since = None
                    news = seen.news_of(update)
                    if news is not None:
                        yield news
            except Unavailable:
                away_since = away_since or time.monotonic()
                has_patience = seen.job is not None and time.monotonic() - away_since < patience
                if not has_patience:
                    raise
            if seen.job is not None and has_ended(seen.job):
                return
            time.sleep(_BETWEEN_TRIES_SECONDS)

    def wait(self, job_id: str) -> job_pb2.Job:
        """The job once it has ended."""
        for _ in self.watch(job_id):
            pass
        return self.job(job_id)

    def steps(self, job_id: str, after_step: int = 0, limit: int = 0, since_seconds: float = 0) -> Steps:
        request = wire.ListStepsRequest(job_id=job_id, after_step=after_step, limit=limit, since_seconds=since_seconds)
        return columns_of(self._connection.ask("ListSteps", request, wire.ListStepsResponse))

    def logs(self, job_id: str, follow: bool = False, limit: int = 0, since_seconds: float = 0, source: str = "") -> Iterator[wire.LogLine]:
        """The newest `limit` lines (0: 1000), oldest first; with `follow` those that come, too, until the job has ended."""
        request = wire.ListLogsRequest(job_id=job_id, limit=limit, since_seconds=since_seconds, source=source)
        while True:
            ended = not follow or has_ended(self.job(job_id))  # before the lines: those of the end are there, then
            for line in self._connection.ask("ListLogs", request, wire.ListLogsResponse).lines:
                request.after_line = max(request.after_line, line.number)
                yield line
            if ended:
                return
            request.limit = _MOST_LINES
            time.sleep(_BETWEEN_LOOKS_SECONDS)

    def trace(self, job_id: str, step: int = 0) -> wire.Trace:
        """Predicted and measured times of the same instructions. 0: of the newest step that was traced."""
        return self._connection.ask("GetTrace", wire.GetTraceRequest(job_id=job_id, step=step), wire.Trace)

    def trace_steps(self, job_id: str, steps: int = 1, silence: float = 3600.0) -> Iterator[wire.Trace]:
        """The next `steps` steps of a running job, which goes on meanwhile, each as soon as all its ranks' times are there.

        A step whose times do not all come, or that is not read before the job is far beyond it, is left out. Unavailable: nothing
        came for `silence` seconds, in which a step is to end.
        """
        whole = wire.Trace()
        request = wire.TraceStepsRequest(job_id=job_id, steps=steps)
        for update in self._connection.listen("TraceSteps", request, wire.TraceStepsUpdate, silence):
            # A step comes in parts.
            if whole.lanes and update.trace.step != whole.step:
                yield whole
                whole = wire.Trace()
            if update.HasField("trace"):
                whole.MergeFrom(update.trace)
        if whole.lanes:
            yield whole

    def cancel(self, job_id: str, after_checkpoint: bool = False) -> job_pb2.Job:
        request = wire.CancelJobRequest(job_id=job_id, after_checkpoint=after_checkpoint)
        return self._connection.ask("CancelJob", request, job_pb2.Job)

    def resume(self, job_id: str) -> job_pb2.Job:
        return self._connection.ask("ResumeJob", wire.ResumeJobRequest(job_id=job_id), job_pb2.Job)

    def replan(self, job_id: str, force: bool = False) -> wire.ReplanJobResponse:
        return self._connection.ask("ReplanJob", wire.ReplanJobRequest(job_id=job_id, force=force), wire.ReplanJobResponse, self._patience)

    def hold(self, job_id: str) -> job_pb2.Job:
        return self._connection.ask("HoldJob", wire.HoldJobRequest(job_id=job_id, hold=True), job_pb2.Job)

    def release(self, job_id: str) -> job_pb2.Job:
        return self._connection.ask("HoldJob", wire.HoldJobRequest(job_id=job_id, hold=False), job_pb2.Job)

    def delete(self, job_id: str) -> None:
        self._connection.ask("DeleteJob", wire.DeleteJobRequest(job_id=job_id), wire.DeleteJobResponse)

    # Plans.

    def plan(self, spec: Spec, time_limit_seconds: float = 0, with_pareto: bool = False,
             with_predicted_step: bool = False) -> plan_pb2.PlanReport:
        """What would be done with a job: measures what is missing, plans, starts nothing."""
        request = wire.PlanJobRequest(spec=read_spec(spec), time_limit_seconds=time_limit_seconds, with_pareto=with_pareto,
                                      with_predicted_step=with_predicted_step)
        return self._connection.ask("PlanJob", request, plan_pb2.PlanReport, self._patience + time_limit_seconds)

    def explain(self, job_id: str, with_predicted_step: bool = False) -> plan_pb2.PlanReport:
        """The plan of a job, and why the best plans of other kinds would be slower."""
        request = wire.GetPlanRequest(job_id=job_id, with_predicted_step=with_predicted_step)
        return self._connection.ask("GetPlan", request, plan_pb2.PlanReport, self._patience)

    # The cluster.

    def nodes(self) -> list[cluster_pb2.Node]:
        return list(self._list_nodes().nodes)

    def profiles(self) -> list[cluster_pb2.DeviceProfile]:
        return list(self._list_nodes().profiles)

    def _list_nodes(self) -> wire.ListNodesResponse:
        return self._connection.ask("ListNodes", wire.ListNodesRequest(), wire.ListNodesResponse)

    def drain(self, node: str, now: bool = False) -> wire.DrainNodeResponse:
        """No job starts on the node any more. The jobs that leave it and those that stay."""
        return self._connection.ask("DrainNode", wire.DrainNodeRequest(node=node, now=now), wire.DrainNodeResponse)

    def undrain(self, node: str) -> None:
        self._connection.ask("UndrainNode", wire.UndrainNodeRequest(node=node), wire.UndrainNodeResponse)

    def forget(self, node: str) -> None:
        """Of a node that is lost."""
        self._connection.ask("ForgetNode", wire.ForgetNodeRequest(node=node), wire.ForgetNodeResponse)

    def check(self, node: str = "", directories: Iterable[str] = ()) -> list[node_check_pb2.NodeCheck]:
        """What is not as it should be on a node or all live ones, which takes seconds: devices, clock, version, limits, and how fast
        these directories of data and checkpoints are."""
        request = wire.CheckNodesRequest(node=node, directories=directories)
        return list(self._connection.ask("CheckNodes", request, wire.CheckNodesResponse, self._long).nodes)

    def links(self, devices: Iterable[str] = (), measure: bool = False) -> list[cluster_pb2.LinkProfile]:
        """Between these ("node/device") or all; with `measure` anew, for which they must be free."""
        if measure:
            anew = wire.MeasureLinksRequest(devices=devices)
            patience = max(self._patience, _MEASURING_SECONDS)
            return list(self._connection.ask("MeasureLinks", anew, wire.ListLinksResponse, patience).links)
        return list(self._connection.ask("ListLinks", wire.ListLinksRequest(devices=devices), wire.ListLinksResponse).links)

    def cluster(self) -> cluster_pb2.ClusterSpec:
        """Nodes, profiles and links, to plan with offline; of more than 16 devices, links that are alike are link_classes."""
        return self._connection.ask("ExportCluster", wire.ExportClusterRequest(), cluster_pb2.ClusterSpec)

    def audit(self, limit: int = 0, since_seconds: float = 0) -> list[wire.AuditRecord]:
        """Who changed what, and what was refused, oldest first. 0: the newest 1000."""
        request = wire.ListAuditRequest(limit=limit, since_seconds=since_seconds)
        return list(self._connection.ask("ListAudit", request, wire.ListAuditResponse).records)

    def create_join_token(self, node: str = "", valid_seconds: float = 0) -> wire.CreateJoinTokenResponse:
        """By which one agent may join, once: of this name, also where such an agent is alive, or any whose name no live agent has. Its
        `token` is shown this one time. 0: for an hour."""
        request = wire.CreateJoinTokenRequest(node=node, valid_seconds=valid_seconds)
        return self._connection.ask("CreateJoinToken", request, wire.CreateJoinTokenResponse)

    def join_tokens(self) -> list[wire.JoinToken]:
        """Newest first, without what is secret."""
        return list(self._connection.ask("ListJoinTokens", wire.ListJoinTokensRequest(), wire.ListJoinTokensResponse).tokens)

    def revoke_join_token(self, token_id: str) -> None:
        """Nobody joins by it any more; a certificate that it got stays."""
        self._connection.ask("RevokeJoinToken", wire.RevokeJoinTokenRequest(token_id=token_id), wire.RevokeJoinTokenResponse)

    def back_up(self, file: str | os.PathLike[str]) -> int:
        """Writes the coordinator's store, while it goes on, to a file of mode 0600 that is not there yet, for `medley-coordinator
        --restore`. Its size in bytes. InvalidArgument: the file is there. OSError: it cannot be written."""
        path = os.fspath(file)
        taken = InvalidArgument(f"{path} is there already; a backup is not written over another file")
        if os.path.lexists(path):
            raise taken
        # All that was ever submitted is in it, which admins alone may ask for: not into a file that others have open, nor through a link
        # of theirs. Under a name of its own, since another backup may be on its way to the same file.
        out = tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or ".", prefix=os.path.basename(path) + ".partial-", delete=False)
        try:
            with out:
                for part in self._connection.listen("BackUp", wire.BackUpRequest(), wire.BackUpPart, self._patience):
                    out.write(part.bytes)
                size = out.tell()
            # Not every file system can refuse to replace, nor has hard links: the name is taken by an empty file first.
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                raise taken from None
            try:
                os.replace(out.name, path)
            except OSError:
                os.remove(path)
                raise
            return size
        finally:
            if os.path.lexists(out.name):
                os.remove(out.name)
