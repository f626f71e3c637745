"""Who the two sides of a connection are: the files of the user, and what the server's certificate says of its role."""
from __future__ import annotations

import os
import pathlib
import socket
import ssl
from dataclasses import dataclass

import grpc

from .errors import InvalidArgument, Unauthenticated, Unavailable

_ROLE_PREFIX = "medley:"
_SERVER_ROLE = "coordinator"
_FILES = ("certificate.pem", "key.pem", "authority.pem")


@dataclass(frozen=True)
class Certificates:
    """A folder as `medley certs issue` writes it."""

    folder: pathlib.Path

    def path(self, name: str) -> pathlib.Path:
        return self.folder / name

    def stamp(self) -> tuple[int, ...]:
        """Another one after any of the files was written again."""
        try:
            return tuple(self.path(name).stat().st_mtime_ns for name in _FILES)
        except OSError as error:
            raise InvalidArgument(f"certificates: {error}") from None


def find_certificates(given: str | os.PathLike[str] | None) -> Certificates | None:
    """As the command line does: what is given, MEDLEY_CERTIFICATES, or the user's configuration where it has them."""
    folder = given or os.environ.get("MEDLEY_CERTIFICATES")
    if not folder:
        home = os.environ.get("XDG_CONFIG_HOME") or (os.environ["HOME"] + "/.config" if os.environ.get("HOME") else "")
        if not home or not os.path.exists(home + "/medley/certificate.pem"):
            return None
        folder = home + "/medley"
    found = Certificates(pathlib.Path(folder))
    for name in _FILES:
        if not os.access(found.path(name), os.R_OK):
            raise InvalidArgument(f"certificates: {found.path(name)} cannot be read")
    return found


def _first(names: object, wanted: str) -> str:
    """Of a subject as `ssl` tells it."""
    entries = [value for parts in names for kind, value in parts if kind == wanted]  # type: ignore[attr-defined]
    return str(entries[0]) if entries else ""


def _shown_certificate(host: str, port: int, certificates: Certificates, seconds: float) -> tuple[dict[str, object], str]:
    """What the server shows that listens there, signed by the authority and in force; parsed, and as PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # its role is looked at, in `secure_channel`
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(certificates.path("authority.pem"))
    context.load_cert_chain(certificates.path("certificate.pem"), certificates.path("key.pem"))
    with socket.create_connection((host, port), timeout=seconds) as plain, context.wrap_socket(plain) as connection:
        parsed, binary = connection.getpeercert(), connection.getpeercert(binary_form=True)
    assert parsed is not None and binary is not None
    return dict(parsed), ssl.DER_cert_to_PEM_cert(binary)


def secure_channel(address: str, certificates: Certificates, options: list[tuple[str, object]], seconds: float) -> grpc.Channel:
    """A channel to a server that has the role of a coordinator, or whose certificate says nothing of roles and is for its host.

    grpcio looks at hosts alone. So the certificate is asked for and read first, and the channel then believes no other one: one
    that says the role is all its authority, and is asked for by a name that stands in it.
    """
    host, port = address.rsplit(":", 1)
    try:
        shown, pem = _shown_certificate(host.strip("[]"), int(port), certificates, seconds)
    except ssl.SSLCertVerificationError as error:
        raise Unauthenticated(f"no coordinator at {address}: its certificate is not by the authority of {certificates.folder}, or not "
                              f"in force: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Unavailable(f"no coordinator at {address}: TLS failed, with the certificates of {certificates.folder}: "
                          f"{error.reason or error}") from None
    except OSError as error:
        raise Unavailable(f"no coordinator at {address}: {error.strerror or error}") from None
    authority = certificates.path("authority.pem").read_bytes()
    organisation, name = _first(shown["subject"], "organizationName"), _first(shown["subject"], "commonName")
    if organisation == _ROLE_PREFIX + _SERVER_ROLE:
        alternatives = shown.get("subjectAltName", ())
        hosts = [str(value) for kind, value in alternatives if kind in ("DNS", "IP Address")]  # type: ignore[attr-defined]
        authority = pem.encode()
        options = [*options, ("grpc.ssl_target_name_override", (hosts or [name])[0].replace("*", "any"))]
    elif organisation.startswith(_ROLE_PREFIX):
        raise Unauthenticated(f"no coordinator at {address}: its certificate is that of {name} with the role "
                              f"{organisation.removeprefix(_ROLE_PREFIX)}, not {_SERVER_ROLE}")
    credentials = grpc.ssl_channel_credentials(authority, certificates.path("key.pem").read_bytes(),
                                               certificates.path("certificate.pem").read_bytes())
    return grpc.secure_channel(address, credentials, options)
