"""Rollway: rollouts as a service for LLM reinforcement learning. This package is the SDK."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rollway import types
    from rollway._async.client import AsyncClient
    from rollway._sync.client import Client
    from rollway.batch import Batch, Group, Sample
    from rollway.errors import ApiError, ConnectionFailed, RollwayError

_EXPORTS = {
    "ApiError": "rollway.errors",
    "AsyncClient": "rollway._async.client",
    "Batch": "rollway.batch",
    "Client": "rollway._sync.client",
    "ConnectionFailed": "rollway.errors",
    "Group": "rollway.batch",
    "RollwayError": "rollway.errors",
    "Sample": "rollway.batch",
    "types": "rollway",
}

__all__ = ["ApiError", "AsyncClient", "Batch", "Client", "ConnectionFailed", "Group", "RollwayError", "Sample", "types"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import rollway` alone loads nothing."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'rollway' has no attribute {name!r}")
    if name == "types":
        return importlib.import_module("rollway.types")
    return getattr(importlib.import_module(_EXPORTS[name]), name)
