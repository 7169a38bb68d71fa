"""Putting a worker together: pool, engine, tokenizer, scorer, host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import structlog

from rollway.digests import tokenizer_digest
from rollway_service.config import Settings
from rollway_service.core.errors import InvalidRequest
from rollway_service.engines.ports import Engine, EngineError
from rollway_service.engines.sglang import SGLangEngine
from rollway_service.operations.messages import PoolFacts
from rollway_service.tokenization.ports import Tokenizer, TokenizerError, Tokenizers
from rollway_workers.control_plane import ControlPlane
from rollway_workers.engines.launch import Launcher, LaunchFailed
from rollway_workers.engines.sglang_flags import LaunchOptions
from rollway_workers.generation import LoopParts
from rollway_workers.host import HostSettings, WorkerHost
from rollway_workers.news import BrokerNews, ControlPlaneNews, News
from rollway_workers.rewards.checker_pool import CheckerPool
from rollway_workers.rewards.scorer import Scorer
from rollway_workers.rewards.slow_checks import registered_functions
from rollway_workers.weights import WeightsKeeper

if TYPE_CHECKING:
    from rollway_workers.broker import WorkerBroker

EMBEDDED, SGLANG = "embedded", "sglang"
_ENGINE_POLL_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker serves and with what.

    engine: "embedded", "sglang" to launch a server, or the base URL of one that runs. slots: rollouts at once, None for
    the engine's own number. model_path: what a launched server serves, None for the pool's model. engine_arguments:
    further flags for it. engine_port: 0 for any free one.
    """

    pool: str
    engine: str = EMBEDDED
    name: str = ""
    slots: int | None = None
    is_deterministic: bool = False
    threads: int = 1
    engine_wait_s: float = 300.0
    model_path: Path | None = None
    engine_arguments: tuple[str, ...] = ()
    engine_port: int = 0

    @property
    def worker_name(self) -> str:
        return self.name or f"{socket.gethostname()}-{self.pool}"


class WorkerRefused(Exception):
    """The worker cannot serve this pool; the message says why."""


async def _open_engine(options: WorkerOptions, pool: PoolFacts) -> Engine:
    if options.engine == EMBEDDED:
        # torch and transformers are only needed here.
        from rollway_workers.engines.embedded import EmbeddedEngine, EmbeddedSettings  # noqa: PLC0415

        settings = EmbeddedSettings(
            deterministic=options.is_deterministic,
            threads=options.threads,
            profile=pool.profile,
            worker=options.worker_name,
        )
        return await asyncio.to_thread(EmbeddedEngine.load, pool.model.source, settings)
    return SGLangEngine(options.engine, profile=pool.profile, worker=options.worker_name)


async def _launch(settings: Settings, options: WorkerOptions, pool: PoolFacts) -> Launcher | None:
    """The server of this worker, once it takes requests; None for a worker that launches none."""
    if options.engine != SGLANG:
        return None
    model_path = options.model_path or Path(pool.model.source)
    if not await asyncio.to_thread(model_path.is_dir):
        raise WorkerRefused(f"there is no model in {model_path}; name its folder on this machine with --model")
    launch_options = LaunchOptions(
        model_path,
        options.engine_port or _free_port(),
        stretch_tokens=settings.stretch_tokens,
        context_length=pool.model.context_length,
        max_running_requests=options.slots,
        is_deterministic=options.is_deterministic,
        arguments=options.engine_arguments,
    )
    log_file = settings.data_dir / "engines" / f"{quote(options.worker_name, safe='')}.log"
    launcher = Launcher(launch_options, log_file)
    try:
        await launcher.start()
    except LaunchFailed as error:
        await launcher.stop()
        raise WorkerRefused(str(error)) from None
    except BaseException:
        await launcher.stop()
        raise
    return launcher


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def _wait_for_engine(engine: Engine, wait_s: float) -> None:
    """Wait until the engine answers: one that is started beside the worker needs its time."""
    deadline_s = asyncio.get_running_loop().time() + wait_s
    while True:
        try:
            await engine.info()
        except EngineError as error:
            if asyncio.get_running_loop().time() >= deadline_s:
                raise WorkerRefused(f"the engine does not answer: {error}") from error
            await asyncio.sleep(_ENGINE_POLL_S)
        else:
            return


async def _open_tokenizer(tokenizers: Tokenizers, pool: PoolFacts) -> Tokenizer | None:
    """The model's tokenizer, checked by its digest; None where the model folder is not on this machine."""
    try:
        tokenizer = await tokenizers.load(pool.model.source)
        digest = await asyncio.to_thread(tokenizer_digest, pool.model.source)
    except (TokenizerError, FileNotFoundError) as error:
        log.warning("no_tokenizer", model=pool.model.name, error=str(error))
        return None
    if pool.model.tokenizer_digest is not None and digest != pool.model.tokenizer_digest:
        raise WorkerRefused(
            f"the tokenizer in {pool.model.source} has the digest {digest}, model {pool.model.name!r} was registered"
            f" with {pool.model.tokenizer_digest}"
        )
    return tokenizer


def _open_broker(settings: Settings, options: WorkerOptions, pool: PoolFacts) -> WorkerBroker | None:
    if not settings.broker_url:
        return None
    # Celery is imported by those who have a broker.
    from rollway_workers.broker import WorkerBroker  # noqa: PLC0415

    broker = WorkerBroker(
        settings.broker_url, settings.broker_namespace, name=options.worker_name, pool_id=pool.pool_id
    )
    broker.start()
    return broker


def _open_scorer(settings: Settings, broker: WorkerBroker | None) -> Scorer:
    own = CheckerPool(settings.reward_processes)
    functions = registered_functions(settings.reward_functions)
    if settings.reward_dispatch == "local":
        return Scorer(own, functions)
    if broker is None:
        raise WorkerRefused("ROLLWAY_REWARD_DISPATCH=celery needs a broker: set ROLLWAY_BROKER_URL")
    from rollway_workers.rewards.celery_checkers import CeleryCheckers  # noqa: PLC0415

    return Scorer(CeleryCheckers(broker, own), functions)


@asynccontextmanager
async def assembled_worker(
    control: ControlPlane, tokenizers: Tokenizers, settings: Settings, options: WorkerOptions
) -> AsyncIterator[tuple[WorkerHost, asyncio.Task[None] | None]]:
    """A worker that is ready to run, and the task that keeps its engine running, if it launched one.

    Engine, checkers and broker are closed at the end of the block.

    Raises:
        WorkerRefused: engine, model and tokenizer do not belong together, or the engine does not answer.
    """
    pool = await control.describe_pool(options.pool)
    launcher = await _launch(settings, options, pool)
    if launcher is not None:
        options = replace(options, engine=launcher.url)
    engine = await _open_engine(options, pool)
    broker = _open_broker(settings, options, pool)
    scorer = _open_scorer(settings, broker)
    try:
        await _wait_for_engine(engine, options.engine_wait_s)
        info = await engine.info()
        if info.vocab_size is not None and info.vocab_size < (pool.model.vocab_size or 0):
            raise WorkerRefused(
                f"the engine's vocabulary has {info.vocab_size} ids, model {pool.model.name!r} has"
                f" {pool.model.vocab_size}: it serves another model"
            )
        parts = LoopParts(
            engine=engine,
            info=info,
            tokenizer=await _open_tokenizer(tokenizers, pool),
            scorer=scorer,
            window=pool.model.context_length,
            vocab_size=pool.model.vocab_size or info.vocab_size,
            eos_token_ids=pool.model.eos_token_ids,
            stretch_tokens=settings.stretch_tokens,
        )
        host_settings = HostSettings(
            name=options.worker_name,
            pool_id=pool.pool_id,
            slots=info.max_running_requests if options.slots is None else options.slots,
            checkpoint_interval_s=settings.checkpoint_interval_s,
        )
        news: News = ControlPlaneNews(control, pool.pool_id)
        if broker is not None:
            news = BrokerNews(broker, news)
        host = WorkerHost(control, parts, WeightsKeeper(engine, info.weight_version), host_settings, news)
        if broker is not None:
            broker.obey(host)
        if launcher is None:
            yield host, None
        else:
            assert isinstance(engine, SGLangEngine)
            launcher.is_paused = lambda: engine.is_paused
            async with _kept_running(launcher) as watch:
                yield host, watch
    finally:
        if broker is not None:
            await broker.stop()
        await scorer.close()
        await engine.close()
        if launcher is not None:
            await launcher.stop()


@asynccontextmanager
async def _kept_running(launcher: Launcher) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(launcher.keep_running())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def run_worker(
    control: ControlPlane,
    tokenizers: Tokenizers,
    settings: Settings,
    options: WorkerOptions,
    stop: asyncio.Event,
    started: asyncio.Event | None = None,
) -> None:
    """Run a worker until `stop`; `started` is set when it begins to take work."""
    async with assembled_worker(control, tokenizers, settings, options) as (host, engine_watch):
        log.info("worker_started", worker=options.worker_name, pool=options.pool, engine=options.engine)
        if started is not None:
            started.set()
        ending = asyncio.Event()
        serving = asyncio.create_task(host.run(ending))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait(
                [task for task in (serving, stopped, engine_watch) if task is not None],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopped.cancel()
            ending.set()
            try:
                await serving
            except InvalidRequest as error:
                raise WorkerRefused(f"the service refuses this worker: {error.detail}") from None
        if engine_watch is not None and engine_watch.done() and isinstance(engine_watch.exception(), LaunchFailed):
            raise WorkerRefused(str(engine_watch.exception()))
    log.info("worker_stopped", worker=options.worker_name)
