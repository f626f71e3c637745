"""The coordinator over gRPC: one channel, never through a proxy, and calls by the names of the service."""
from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf import descriptor_pb2
from google.protobuf.message import Message

from .certificates import find_certificates, secure_channel
from .errors import DeadlineExceeded, InvalidArgument, MedleyError, Unavailable, Unimplemented, error_of
from .v1 import coordinator_pb2

Answer = TypeVar("Answer", bound=Message)

_PORT = 7070
_MOST_REPLY = 256 << 20
_KEEPALIVE_MILLISECONDS = 5000
_SERVICE = coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"]
# A coordinator that comes back is found within a second, however long it was away; one that vanished is missed within ten.
_OPTIONS: list[tuple[str, object]] = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", _KEEPALIVE_MILLISECONDS),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_MILLISECONDS),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", _MOST_REPLY),
    ("grpc.max_send_message_length", -1),
]


def complete_address(text: str) -> str:
    """HOST:PORT of what a user wrote, an IPv6 address being in brackets."""
    found = re.fullmatch(r"(\[[0-9A-Za-z:.%]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?", text)
    if found is None or not 1 <= int(found[2] or _PORT) <= 65535:
        raise InvalidArgument(f'address: "{text}": write HOST or HOST:PORT, an IPv6 address in brackets, without http://')
    return f"{found[1]}:{found[2] or _PORT}"


def _is_streamed(method: str) -> bool:
    described = descriptor_pb2.MethodDescriptorProto()
    _SERVICE.methods_by_name[method].CopyToProto(described)
    return bool(described.server_streaming)


class _Watchdog:
    """Cancels a call that has been silent for so long; what takes its time on this side is not counted."""

    def __init__(self, call: Any, seconds: float) -> None:
        self._call, self._seconds = call, seconds
        self._ends_at: float | None = time.monotonic() + seconds
        self._changed = threading.Condition()
        self._stopped = self.has_cancelled = False
        threading.Thread(target=self._run, name="medley silence", daemon=True).start()

    def listen(self, listens: bool) -> None:
        with self._changed:
            self._ends_at = time.monotonic() + self._seconds if listens else None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._stopped:
                left = self._seconds if self._ends_at is None else self._ends_at - time.monotonic()
                if left <= 0:
                    self.has_cancelled = True
                    self._call.cancel()
                    return
                self._changed.wait(min(left, threading.TIMEOUT_MAX))


class Connection:
    """From any thread."""

    def __init__(self, address: str | None, certificates: str | os.PathLike[str] | None, timeout: float) -> None:
        self.address = complete_address(address or os.environ.get("MEDLEY_COORDINATOR") or "127.0.0.1")
        self.timeout = timeout
        self._certificates = find_certificates(certificates)
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._stamp: tuple[int, ...] = ()

    def close(self) -> None:
        with self._lock:
            if self._channel is not None:
                self._channel.close()
            self._channel = None

    def ask(self, method: str, request: Message, answer: type[Answer], seconds: float | None = None) -> Answer:
        """The answer; of one that comes in parts, all of them merged. Infinite seconds: as long as the coordinator is there."""
        seconds = seconds or self.timeout
        timeout = None if math.isinf(seconds) else seconds
        channel = self._open()
        try:
            if not _is_streamed(method):
                whole: Answer = self._method(channel, method, answer)(request, timeout=timeout)
                return whole
            whole = answer()
            for part in self._method(channel, method, answer)(request, timeout=timeout):
                whole.MergeFrom(part)
            return whole
        except grpc.RpcError as error:
            raise self._failure(error, channel, seconds) from None

    def listen(self, method: str, request: Message, answer: type[Answer], silence: float) -> Iterator[Answer]:
        """Messages as they come. Unavailable: none came for so many seconds."""
        channel = self._open()
        call = self._method(channel, method, answer)(request)
        watchdog = _Watchdog(call, silence)
        try:
            for message in call:
                watchdog.listen(False)
                yield message
                watchdog.listen(True)
        except grpc.RpcError as error:
            if watchdog.has_cancelled:
                raise Unavailable(f"the coordinator at {self.address} has been silent for {silence:g} s") from None
            raise self._failure(error, channel, silence) from None
        finally:
            watchdog.stop()
            call.cancel()

    def _open(self) -> grpc.Channel:
        """The channel; another one where the last one failed or the certificates are new, which leaves calls under way alone."""
        with self._lock:
            if self._certificates is None:
                self._channel = self._channel or grpc.insecure_channel(self.address, _OPTIONS)
                return self._channel
            stamp = self._certificates.stamp()
            if self._channel is None or stamp != self._stamp:
                self._channel = secure_channel(self.address, self._certificates, _OPTIONS, self.timeout)
                self._stamp = stamp
            return self._channel

    @staticmethod
    def _method(channel: grpc.Channel, method: str, answer: type[Answer]) -> Any:
        make = channel.unary_stream if _is_streamed(method) else channel.unary_unary
        return make(f"/{_SERVICE.full_name}/{method}", request_serializer=lambda request: request.SerializeToString(),
                    response_deserializer=answer.FromString)

    def _failure(self, error: Any, channel: grpc.Channel, seconds: float) -> MedleyError:
        code, message = error.code(), error.details() or f"the coordinator at {self.address} gave no reason"
        was_sent = "Error received from peer" in (error.debug_error_string() or "")
        if code is grpc.StatusCode.UNAVAILABLE and not was_sent:
            if self._certificates is not None:
                # Another certificate may be shown there now: it is looked at before the next call.
                with self._lock:
                    self._channel = None if self._channel is channel else self._channel
            return Unavailable(f"no coordinator at {self.address}: {message}")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and not was_sent:
            return DeadlineExceeded(f"the coordinator at {self.address} did not answer within {seconds:g} s")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return Unimplemented(f"what listens at {self.address} does not know this call: it is no coordinator, or one of another version")
        return error_of(code, message)
