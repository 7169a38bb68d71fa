"""A worker: one session, many rollouts at once, on one engine.

Four loops run side by side: heartbeats (which bring the weights to follow and the items that are still ours), claims,
checkpoints (all rollouts in one write), and ends (as many as are due in one write). A result is kept until the service
has taken it or says that it is not ours. The worker stops writing when it has not reached the service for two thirds
of its lease, by its own monotonic clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from rollway_service.core.errors import InvalidRequest
from rollway_service.engines.ports import EngineError
from rollway_service.operations.messages import Claims, FinishedRollout, SessionOpened, WorkerHello
from rollway_workers.control_plane import ControlPlane
from rollway_workers.duties import RETRY_S, SessionOver, guarded, persist, wait
from rollway_workers.generation import LoopParts
from rollway_workers.news import ControlPlaneNews, News
from rollway_workers.rollout_loop import RolloutLoop
from rollway_workers.weights import WeightsKeeper

_CLAIM_POLL_S = 1.0
_GATHER_S = 0.03
"""Short rollouts end in bursts: waiting a moment turns many small transactions into one."""
_WRITE_SHARE_OF_LEASE = 2 / 3
_HEARTBEATS_PER_LEASE = 4

log = structlog.get_logger()


@dataclass(slots=True)
class _Running:
    """A rollout in flight."""

    loop: RolloutLoop
    task: asyncio.Task[None]


@dataclass(slots=True)
class HostSettings:
    """`slots`: rollouts at once. Times in seconds."""

    name: str
    pool_id: str
    slots: int
    checkpoint_interval_s: float = 0.5
    is_draining: bool = field(default=False)


class WorkerHost:
    """Runs rollouts of a pool until it is stopped."""

    def __init__(
        self,
        control: ControlPlane,
        parts: LoopParts,
        weights: WeightsKeeper,
        settings: HostSettings,
        news: News | None = None,
    ) -> None:
        self._control = control
        self._news_source = news or ControlPlaneNews(control, settings.pool_id)
        self._parts = parts
        self._weights = weights
        self._settings = settings
        self._session: SessionOpened | None = None
        self._renewed_s = 0.0
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, FinishedRollout] = {}
        self._unknown: dict[str, int] = {}
        self._slot_freed = asyncio.Event()
        self._has_ended = asyncio.Event()
        self._news = asyncio.Event()
        self._commands: set[asyncio.Task[None]] = set()
        self._is_paused = False

    def drain(self) -> None:
        """Claim no more work; what runs is finished."""
        log.info("draining", worker=self._settings.name, running=len(self._running))
        self._settings.is_draining = True

    def pause(self) -> None:
        """Claim no more work and pause the engine; rollouts in flight wait."""
        self.drain()
        if not self._is_paused:
            self._is_paused = True
            self._later(self._parts.engine.pause())

    def resume(self) -> None:
        """Take work again after `drain` or `pause`."""
        log.info("resumed", worker=self._settings.name)
        self._settings.is_draining = False
        if self._is_paused:
            self._is_paused = False
            self._later(self._parts.engine.resume())
        self._slot_freed.set()

    def status(self) -> dict[str, Any]:
        """What an operator asks of a worker."""
        return {
            "pool_id": self._settings.pool_id,
            "slots": self._settings.slots,
            "running": len(self._running),
            "is_draining": self._settings.is_draining,
            "active_version": self._weights.active_version,
            "session_id": self._session.session_id if self._session is not None else None,
        }

    def _later(self, call: Coroutine[Any, Any, None]) -> None:
        async def told() -> None:
            try:
                await call
            except EngineError as error:
                log.warning("engine_command_failed", worker=self._settings.name, error=str(error))

        task = asyncio.get_running_loop().create_task(told())
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`, then hand back what is unfinished."""
        while not stop.is_set():
            try:
                await self._open_session(stop)
                if self._session is None:
                    return
                await self._serve(stop)
            except SessionOver as error:
                log.warning("session_over", worker=self._settings.name, reason=str(error))
                await self._abandon()
        await self._hand_back()

    async def _open_session(self, stop: asyncio.Event) -> None:
        hello = WorkerHello(
            pool_id=self._settings.pool_id,
            name=self._settings.name,
            slots=self._settings.slots,
            engine=self._parts.info.facts.model_dump(mode="json"),
            active_version=self._weights.active_version,
        )
        self._session = await persist(lambda: self._control.open_session(hello), stop, self._settings.name)
        self._renewed_s = time.monotonic()

    async def _serve(self, stop: asyncio.Event) -> None:
        duties = (self._heartbeats, self._claims, self._checkpoints, self._ends, self._listen)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guarded(duty, self._settings.name)) for duty in duties]
            waiter = group.create_task(stop.wait())
            done, _ = await asyncio.wait([*tasks, waiter], return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            for task in tasks:
                task.cancel()
        for task in tasks:
            if task in done and (over := task.result()) is not None:
                raise over

    @property
    def _open(self) -> SessionOpened:
        assert self._session is not None
        return self._session

    def _may_write(self) -> bool:
        return time.monotonic() - self._renewed_s < self._open.lease_s * _WRITE_SHARE_OF_LEASE

    async def _heartbeats(self) -> None:
        """Renew the lease, drop what is not ours any more, follow the weights."""
        while True:
            await self._weights.look()
            started_s, before = time.monotonic(), dict(self._running)
            reply = await self._control.heartbeat(
                self._open.session_id, active_version=self._weights.active_version, slots=self._settings.slots
            )
            self._renewed_s = started_s
            # What was claimed meanwhile is not in an answer that may be older than the claim.
            for item_id, running in before.items():
                if self._running.get(item_id) is running and reply.held.get(item_id) != running.loop.item.fence:
                    self._drop(item_id, "the service has ended it or given it to another worker")
            await self._give_back_unknown(reply.held)
            if await self._weights.follow(reply.target):
                continue
            await wait(self._news, self._open.lease_s / _HEARTBEATS_PER_LEASE)
            self._news.clear()

    async def _give_back_unknown(self, held: Mapping[str, int]) -> None:
        """Release items that are ours for the service alone: the answer to a claim was lost, or they cannot be started.

        Only what is unknown in two heartbeats in a row: an answer may be on its way.
        """
        unknown = {item_id: fence for item_id, fence in held.items() if item_id not in self._running}
        lost = {item_id: fence for item_id, fence in unknown.items() if self._unknown.get(item_id) == fence}
        self._unknown = unknown
        if lost:
            log.warning("items_never_begun", worker=self._settings.name, work_item_ids=sorted(lost))
            await self._control.release(self._open.session_id, lost, "its worker never began it")

    async def _listen(self) -> None:
        """Turn news of the pool into a heartbeat and a claim."""
        while True:
            if await self._news_source.wait(self._open.lease_s):
                self._news.set()
                self._slot_freed.set()

    async def _claims(self) -> None:
        while True:
            self._slot_freed.clear()
            free = self._settings.slots - len(self._running)
            if free > 0 and not self._settings.is_draining and self._may_write():
                claims = await self._control.claim(
                    self._open.session_id, limit=free, active_version=self._weights.active_version
                )
                self._start(claims)
                if claims.items:
                    continue
            if await wait(self._slot_freed, _CLAIM_POLL_S):
                await asyncio.sleep(_GATHER_S)

    def _start(self, claims: Claims) -> None:
        for item in claims.items:
            try:
                loop = RolloutLoop(item, claims.jobs[item.job_id], self._parts)
            except Exception as error:
                # A checkpoint that cannot be read, say: its neighbours start all the same, and a heartbeat releases it.
                log.error("item_cannot_start", work_item_id=item.work_item_id, exc_info=error)
                continue
            task = asyncio.create_task(self._run_one(loop))
            self._running[item.work_item_id] = _Running(loop, task)

    async def _run_one(self, loop: RolloutLoop) -> None:
        item_id = loop.item.work_item_id
        try:
            finished = await loop.run()
        except asyncio.CancelledError:
            self._running.pop(item_id, None)
            raise
        self._ended[item_id] = finished
        self._has_ended.set()

    def _drop(self, item_id: str, reason: str) -> None:
        log.info("item_dropped", work_item_id=item_id, reason=reason)
        self._ended.pop(item_id, None)
        running = self._running.pop(item_id, None)
        if running is not None:
            running.task.cancel()
        self._slot_freed.set()

    async def _checkpoints(self) -> None:
        """Every interval, one write for all rollouts that have passed a stretch."""
        while True:
            await asyncio.sleep(self._settings.checkpoint_interval_s)
            if not self._may_write():
                continue
            taken = [
                found
                for item_id, running in self._running.items()
                if item_id not in self._ended and (found := running.loop.take_checkpoint()) is not None
            ]
            if not taken:
                continue
            lost = await self._control.checkpoint(self._open.session_id, [piece for piece, _ in taken])
            for piece, keep in taken:
                if piece.work_item_id in lost:
                    self._drop(piece.work_item_id, "its checkpoint was refused: another worker has it")
                else:
                    keep()

    async def _ends(self) -> None:
        """Hand in what has ended, as much as is due in one write."""
        while True:
            await self._has_ended.wait()
            await asyncio.sleep(_GATHER_S)
            self._has_ended.clear()
            if not self._ended:
                continue
            if not self._may_write():
                await asyncio.sleep(RETRY_S)
                self._has_ended.set()
                continue
            due = dict(self._ended)
            try:
                await self._hand_in(list(due.values()))
            except BaseException:
                self._has_ended.set()
                raise
            for item_id in due:
                self._ended.pop(item_id, None)
                self._running.pop(item_id, None)
            self._slot_freed.set()

    async def _hand_in(self, due: list[FinishedRollout]) -> None:
        try:
            lost = await self._control.finish(self._open.session_id, due)
        except InvalidRequest as error:
            if len(due) > 1:
                for one in due:
                    await self._hand_in([one])
                return
            # Its own tree contradicts itself: a fault of this worker. It is given back, for another try.
            log.error("result_refused", work_item_id=due[0].work_item_id, error=error.detail)
            fences = {due[0].work_item_id: due[0].fence}
            await self._control.release(self._open.session_id, fences, error.detail)
            return
        for item_id in lost:
            log.info("result_too_late", work_item_id=item_id)

    async def _abandon(self) -> None:
        """Stop everything that was claimed under a lost session."""
        tasks = [running.task for running in self._running.values()]
        self._running.clear()
        self._ended.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hand_back(self) -> None:
        """Save what can be saved, and end the session."""
        if self._session is None:
            return
        session_id = self._session.session_id
        try:
            if self._ended:
                await self._hand_in(list(self._ended.values()))
            pieces = [
                found[0]
                for item_id, running in self._running.items()
                if item_id not in self._ended and (found := running.loop.take_checkpoint(force=True)) is not None
            ]
            if pieces:
                await self._control.checkpoint(session_id, pieces)
            await self._control.close_session(session_id)
        except Exception as error:  # noqa: BLE001
            # The lease runs out by itself, and what was not handed in is done again from its checkpoints.
            log.warning("hand_back_failed", worker=self._settings.name, error=repr(error))
        # Last, since an engine that hangs takes its time to abort, and the next worker should not wait for it.
        await self._abandon()
