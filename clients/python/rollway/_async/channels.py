"""gRPC channels, the async way. The sync twin of this file is written by hand."""

from __future__ import annotations

from grpc import aio

from rollway.channel_options import OPTIONS, Option, credentials_for, target_of


def open_channel(url: str, *options: Option) -> aio.Channel:
    """A channel to the service; it connects when it is used. `options` are gRPC's, after ours."""
    credentials = credentials_for(url)
    if credentials is None:
        return aio.insecure_channel(target_of(url), options=[*OPTIONS, *options])
    return aio.secure_channel(target_of(url), credentials, options=[*OPTIONS, *options])
