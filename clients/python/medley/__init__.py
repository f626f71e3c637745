"""The Python client of Medley. Messages are those of proto/medley/v1, in medley.v1."""
from .client import Client, has_ended, state_of
from .columns import Column, Steps, Validations
from .errors import (Aborted, AlreadyExists, Cancelled, DataLoss, DeadlineExceeded, FailedPrecondition, Internal, InvalidArgument,
                     MedleyError, NotFound, OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable, Unimplemented)
from .spec import Spec, read_spec
from .v1.job_pb2 import Job, JobSpec

__all__ = ["Aborted", "AlreadyExists", "Cancelled", "Client", "Column", "DataLoss", "DeadlineExceeded", "FailedPrecondition", "Internal",
           "InvalidArgument", "Job", "JobSpec", "MedleyError", "NotFound", "OutOfRange", "PermissionDenied", "ResourceExhausted", "Spec",
           "Steps", "Unauthenticated", "Unavailable", "Unimplemented", "Validations", "has_ended", "read_spec", "state_of"]
