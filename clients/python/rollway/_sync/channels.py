"""gRPC channels, the sync way: the hand-written twin of `_async/channels.py`."""

from __future__ import annotations

import grpc

from rollway.channel_options import OPTIONS, Option, credentials_for, target_of


def open_channel(url: str, *options: Option) -> grpc.Channel:
    """A channel to the service; it connects when it is used. `options` are gRPC's, after ours."""
    credentials = credentials_for(url)
    if credentials is None:
        return grpc.insecure_channel(target_of(url), options=[*OPTIONS, *options])
    return grpc.secure_channel(target_of(url), credentials, options=[*OPTIONS, *options])
