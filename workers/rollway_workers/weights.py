"""Bringing an engine to the weights that its pool should run: stage (find, verify), then activate."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import structlog

from rollway.digests import weights_digest
from rollway_service.engines.ports import Engine, EngineError, SwapMode, WeightSource
from rollway_service.operations.messages import VersionTarget

_RETRY_S = 5.0
_LOOK_S = 2.0

log = structlog.get_logger()


class WeightsRefused(Exception):
    """The weights are not what was published; the old ones go on serving."""


def stage(target: VersionTarget) -> WeightSource:
    """Find the files and check that they are what was published.

    Raises:
        WeightsRefused: missing, unreadable, or another digest.
    """
    path = target.source.removeprefix("file://")
    if not Path(path).is_dir():
        raise WeightsRefused(f"version {target.version}: {path} is no folder on this worker")
    try:
        found = weights_digest(path)
    except OSError as error:
        raise WeightsRefused(f"version {target.version}: {error}") from None
    if target.digest is not None and found != target.digest:
        raise WeightsRefused(f"version {target.version}: {path} has the digest {found}, published was {target.digest}")
    return WeightSource(version=target.version, path=path, digest=found)


class WeightsKeeper:
    """Follows the target version; one load at a time, the latest target wins."""

    def __init__(self, engine: Engine, active_version: int | None, *, mode: SwapMode = "in_place") -> None:
        self.active_version = active_version
        self._engine = engine
        self._mode = mode
        self._lock = asyncio.Lock()
        self._target: VersionTarget | None = None
        self._retry_at_s = 0.0
        self._loads = 0

    async def look(self) -> None:
        """Ask the engine which weights it runs: one that was restarted is back at those it was launched with."""
        if self._lock.locked():
            return
        loads = self._loads
        try:
            async with asyncio.timeout(_LOOK_S):
                version = await self._engine.loaded_version()
        except (EngineError, TimeoutError):
            # An engine that does not answer is the rollouts' concern; they wait for it.
            return
        if version is not None and version != self.active_version and loads == self._loads:
            log.warning("engine_changed_weights", expected=self.active_version, found=version)
            self.active_version = version
            self._retry_at_s = 0.0

    async def follow(self, target: VersionTarget) -> bool:
        """Load the target unless it runs already. True when the active version changed."""
        self._target = target
        if target.version == self.active_version or self._lock.locked() or time.monotonic() < self._retry_at_s:
            return False
        async with self._lock:
            changed = False
            while self._target.version != self.active_version:
                if not await self._load(self._target):
                    break
                changed = True
            return changed

    async def _load(self, target: VersionTarget) -> bool:
        started_s = time.monotonic()
        try:
            source = await asyncio.to_thread(stage, target)
            await self._engine.load_weights(source, self._mode)
        except (WeightsRefused, EngineError) as error:
            log.error("weights_not_loaded", version=target.version, error=str(error))
            self._retry_at_s = time.monotonic() + _RETRY_S
            return False
        self.active_version = target.version
        self._loads += 1
        log.info("weights_loaded", version=target.version, seconds=round(time.monotonic() - started_s, 3))
        return True
