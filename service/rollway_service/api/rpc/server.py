"""The gRPC server: all doors on one port, with health and reflection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from rollway_service.api.rpc.door import Problems
from rollway_service.api.rpc.public import SERVICE, add_public_service
from rollway_service.api.rpc.worker import add_worker_service
from rollway_service.operations.context import Context

_METADATA_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class RpcService:
    """A service of the contract. `name`: with its package. `add`: registers its servicer over these parts."""

    name: str
    add: Callable[[Context, aio.Server], None]


SERVICES = (
    RpcService(SERVICE, add_public_service),
    RpcService("rollway.worker.v1.WorkerService", add_worker_service),
)


class CannotListen(Exception):
    """The port is taken, or the address is not this machine's."""


class RpcServer:
    """A running gRPC server. `port` is the one that it listens on, also when it was started with 0."""

    def __init__(self, server: aio.Server, health: HealthServicer, port: int) -> None:
        self._server = server
        self._health = health
        self.port = port

    async def stop(self, grace_s: float) -> None:
        """Say that no more work is taken, give running calls `grace_s`, then end them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


def _credentials(cert: Path | None, key: Path | None) -> grpc.ServerCredentials | None:
    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise CannotListen("TLS needs both ROLLWAY_GRPC_TLS_CERT and ROLLWAY_GRPC_TLS_KEY")
    try:
        return grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())])
    except OSError as error:
        raise CannotListen(f"TLS: {error.filename}: {error.strerror}") from None


async def start_rpc_server(
    context: Context,
    host: str,
    port: int,
    *,
    max_message_bytes: int,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
) -> RpcServer:
    """Serve all gRPC doors, with TLS where a certificate and its key are given.

    `max_message_bytes` bounds what is received; answers are cut to fit clients' defaults.

    Raises:
        CannotListen: the address is not to be had, or the certificate cannot be read.
    """
    credentials = _credentials(tls_cert, tls_key)
    options = [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]
    server = aio.server(interceptors=[Problems()], options=options)
    for service in SERVICES:
        service.add(context, server)
    names = tuple(service.name for service in SERVICES)
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection((*names, "grpc.health.v1.Health", reflection.SERVICE_NAME), server)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if credentials is None:
            bound = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise CannotListen(f"cannot serve gRPC on {address}: {error}") from None
    await server.start()
    for name in ("", *names):
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    return RpcServer(server, health, bound)
