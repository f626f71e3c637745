"""What is measured of steps, as columns: arrays of numpy where it is installed, array.array otherwise."""
from __future__ import annotations

import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol

from .v1 import coordinator_pb2, job_pb2

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


class Column(Protocol):
    """What numpy.ndarray and array.array have in common."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, index: Any, /) -> Any: ...


def _real(values: Iterable[float]) -> Column:
    column: Column = array.array("d", values) if numpy is None else numpy.array(list(values), dtype=numpy.float64)
    return column


def _whole(values: Iterable[int]) -> Column:
    column: Column = array.array("Q", values) if numpy is None else numpy.array(list(values), dtype=numpy.uint64)
    return column


def _flags(values: Iterable[bool]) -> Column:
    column: Column = array.array("B", values) if numpy is None else numpy.array(list(values), dtype=numpy.bool_)
    return column


@dataclass(frozen=True)
class Validations:
    """One row a validation, ascending."""

    step: Column
    loss: Column

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class Steps:
    """One row a step, ascending. Units and meanings are those of StepMetrics in job.proto."""

    step: Column
    loss: Column
    gradient_norm: Column
    learning_rate: Column
    step_seconds: Column
    tokens: Column
    tokens_per_second: Column
    attempt: Column
    emulated: Column
    skipped: Column
    at_seconds: Column
    loss_scale: Column
    validations: Validations

    def __len__(self) -> int:
        return len(self.step)

    def columns(self) -> dict[str, Column]:
        """By name, as pandas.DataFrame takes them; without the validations."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "validations"}


def _kept(steps: Iterable[job_pb2.StepMetrics]) -> Iterator[job_pb2.StepMetrics]:
    """Without those of an older attempt behind where a newer one began: they were discarded with it."""
    attempt = 0
    for step in steps:
        attempt = max(attempt, step.attempt)
        if step.attempt == attempt:
            yield step


def columns_of(answer: coordinator_pb2.ListStepsResponse) -> Steps:
    steps = list(_kept(answer.steps))
    return Steps(
        step=_whole(one.step for one in steps),
        loss=_real(one.loss for one in steps),
        gradient_norm=_real(one.gradient_norm for one in steps),
        learning_rate=_real(one.learning_rate for one in steps),
        step_seconds=_real(one.step_seconds for one in steps),
        tokens=_whole(one.tokens for one in steps),
        tokens_per_second=_real(one.tokens / one.step_seconds if one.step_seconds > 0 else 0.0 for one in steps),
        attempt=_whole(one.attempt for one in steps),
        emulated=_flags(one.emulated for one in steps),
        skipped=_flags(one.skipped for one in steps),
        at_seconds=_real(one.at_seconds for one in steps),
        loss_scale=_whole(one.loss_scale for one in steps),
        validations=Validations(step=_whole(one.step for one in answer.validations), loss=_real(one.loss for one in answer.validations)))
