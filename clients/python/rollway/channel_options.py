"""How gRPC channels of clients and workers are opened: `grpc://host:port`, or `grpcs://` with TLS."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import grpc

from rollway.errors import RollwayError

CA_VARIABLE = "ROLLWAY_GRPC_CA"

Option = tuple[str, int]
OPTIONS: list[Option] = [
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
]


def target_of(url: str) -> str:
    """host:port of a gRPC URL. Raises RollwayError for another."""
    try:
        parsed = urlsplit(url)
        is_usable = parsed.scheme in {"grpc", "grpcs"} and bool(parsed.hostname) and parsed.port is not None
    except ValueError:
        is_usable = False
    if not is_usable:
        raise RollwayError(f"{url!r} is no gRPC URL of a service; one looks like grpc://127.0.0.1:8081")
    return parsed.netloc


def credentials_for(url: str) -> grpc.ChannelCredentials | None:
    """TLS for `grpcs`, None for `grpc`. Trusts the system's roots, or those in the file that ROLLWAY_GRPC_CA names."""
    if not url.startswith("grpcs:"):
        return None
    roots = os.environ.get(CA_VARIABLE)
    try:
        return grpc.ssl_channel_credentials(Path(roots).read_bytes() if roots else None)
    except OSError as error:
        raise RollwayError(f"{CA_VARIABLE}={roots} cannot be read: {error.strerror}") from None
