"""What can go wrong, by gRPC's codes. The text is the coordinator's own."""
from __future__ import annotations

import grpc


class MedleyError(Exception):
    """The coordinator refused a call, or could not be asked. Each code has a class below."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    @property
    def message(self) -> str:
        return str(self)


class Cancelled(MedleyError):
    code = grpc.StatusCode.CANCELLED


class InvalidArgument(MedleyError):
    """Names the field, its value and what is allowed. Specs that cannot be read raise it before anything is sent."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class DeadlineExceeded(MedleyError):
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class NotFound(MedleyError):
    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(MedleyError):
    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDenied(MedleyError):
    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(MedleyError):
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPrecondition(MedleyError):
    code = grpc.StatusCode.FAILED_PRECONDITION


class Aborted(MedleyError):
    code = grpc.StatusCode.ABORTED


class OutOfRange(MedleyError):
    code = grpc.StatusCode.OUT_OF_RANGE


class Unimplemented(MedleyError):
    code = grpc.StatusCode.UNIMPLEMENTED


class Internal(MedleyError):
    code = grpc.StatusCode.INTERNAL


class Unavailable(MedleyError):
    """There is no coordinator, or it starts or stops: the same call may succeed later."""

    code = grpc.StatusCode.UNAVAILABLE


class DataLoss(MedleyError):
    code = grpc.StatusCode.DATA_LOSS


class Unauthenticated(MedleyError):
    """Either side does not believe who the other is."""

    code = grpc.StatusCode.UNAUTHENTICATED


def error_of(code: grpc.StatusCode, message: str) -> MedleyError:
    for kind in MedleyError.__subclasses__():
        if kind.code is code:
            return kind(message)
    return MedleyError(message)
