"""Sessions of workers: a lease on everything that the worker claims, renewed by heartbeat.

Expiry is judged by the database's clock alone. A worker that starts again under its name closes its older sessions,
so that their work is queued at once.
"""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from rollway.types import Limits, RolloutFailure
from rollway.types.base import Name
from rollway_service.core.errors import FieldInvalid, NotFound, StaleFence
from rollway_service.core.ids import new_id
from rollway_service.dispatch.ports import pool_topic
from rollway_service.operations.context import Context
from rollway_service.operations.lookups import get_model, get_pool
from rollway_service.operations.messages import (
    HeartbeatReply,
    ModelFacts,
    PoolFacts,
    SessionOpened,
    VersionTarget,
    WorkerHello,
)
from rollway_service.operations.rollout_ends import end_by_service
from rollway_service.store import fleet, jobs, models, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import ModelRow, SessionRow, WorkItemRow

_NAME: TypeAdapter[str] = TypeAdapter(Name)
_MAX_SLOTS = 100_000


async def _target(transaction: Transaction, model: ModelRow) -> VersionTarget:
    row = await models.version_by_number(transaction, model.id, model.latest_version)
    assert row is not None
    return VersionTarget(row.version, row.source, row.digest)


async def describe_pool(context: Context, tenant_id: str, name: str) -> PoolFacts:
    """What a worker must know before it can serve a pool.

    Raises:
        NotFound: no such pool, or none that has a model yet.
    """
    async with context.database.snapshot() as transaction:
        pool = await get_pool(transaction, tenant_id, name)
        if pool.model_id is None:
            raise NotFound(f"pool {name!r} has no model yet: create a run for it first")
        model = await get_model(transaction, tenant_id, pool.model_id)
        target = await _target(transaction, model)
    facts = ModelFacts(
        id=model.id,
        name=model.name,
        source=model.source,
        tokenizer_digest=model.tokenizer_digest,
        vocab_size=model.vocab_size,
        context_length=model.context_length,
        eos_token_ids=tuple(model.eos_token_ids),
    )
    return PoolFacts(pool_id=pool.id, name=pool.name, profile=pool.profile, model=facts, target=target)


async def open_session(context: Context, tenant_id: str, hello: WorkerHello) -> SessionOpened:
    """Take the worker's name, end its older sessions, and start a new lease.

    Raises:
        NotFound: no such pool. FieldInvalid: the name is none, or the slots are no number of rollouts.
    """
    _check_hello(hello)
    async with context.database.transaction() as transaction:
        pool = await get_pool(transaction, tenant_id, hello.pool_id)
        await transaction.alone_with("worker", pool.id, hello.name)
        worker = await fleet.worker_named(transaction, pool.id, hello.name)
        if worker is None:
            worker_id, epoch = new_id("worker"), 1
            await fleet.insert_worker(transaction, id=worker_id, tenant_id=tenant_id, pool_id=pool.id, name=hello.name)
        else:
            worker_id = worker["id"]
            epoch = await fleet.raise_epoch(transaction, worker_id)
            older = await fleet.end_sessions(transaction, "closed", worker_id=worker_id)
            await requeue_items(
                context,
                transaction,
                await work.items_of_sessions(transaction, older),
                f"worker {hello.name!r} started again",
            )
        session_id = new_id("session")
        await fleet.insert_session(
            transaction,
            context.settings.session_lease_s,
            id=session_id,
            tenant_id=tenant_id,
            worker_id=worker_id,
            pool_id=pool.id,
            epoch=epoch,
            slots=hello.slots,
            active_version=hello.active_version,
            engine=dict(hello.engine),
        )
    return SessionOpened(session_id, worker_id, epoch, context.settings.session_lease_s)


def _check_hello(hello: WorkerHello) -> None:
    try:
        _NAME.validate_python(hello.name)
    except ValidationError as error:
        raise FieldInvalid("$.name", error.errors()[0]["msg"]) from None
    if not 1 <= hello.slots <= _MAX_SLOTS:
        raise FieldInvalid("$.slots", f"is {hello.slots}; a worker has 1 to {_MAX_SLOTS}")


async def requeue_items(
    context: Context, transaction: Transaction, items: list[WorkItemRow], error: str, *, uncount: bool = False
) -> None:
    """Queue locked items again; those that lost too many workers fail."""
    specs = await jobs.jobs_by_ids(transaction, sorted({item.job_id for item in items}))
    spent: list[WorkItemRow] = []
    again: list[WorkItemRow] = []
    for item in items:
        limits = Limits.model_validate(specs[item.job_id].spec.get("limits", {}))
        (spent if item.attempts >= limits.max_attempts and not uncount else again).append(item)
    await work.requeue(transaction, [item.id for item in again], error=error, uncount=uncount)
    if spent:
        detail = f"{error}; tried {spent[0].attempts} times (limits.max_attempts)"
        await end_by_service(context, transaction, spent, RolloutFailure(kind="worker_lost", detail=detail))
    for pool_id in {item.pool_id for item in again}:
        transaction.after_commit(lambda pool_id=pool_id: context.wakeups.wake(pool_topic(pool_id)))  # type: ignore[misc]


async def live_session(transaction: Transaction, session_id: str) -> SessionRow:
    session = await fleet.live_session(transaction, session_id)
    if session is None:
        raise StaleFence(_over(session_id))
    return session


def _over(session_id: str) -> str:
    return f"session {session_id} has ended or its lease has run out; open a new one"


async def check_owner(context: Context, tenant_id: str, session_id: str) -> None:
    """Make sure that a session is this tenant's; whose it is never changes, so each is looked up once.

    Raises:
        StaleFence: it is not, or there is none: the answer is the same.
    """
    owner = context.owners.get(session_id)
    if owner is None:
        async with context.database.snapshot() as transaction:
            owner = await fleet.session_tenant(transaction, session_id)
        if owner is not None:
            context.remember_owner(session_id, owner)
    if owner != tenant_id:
        raise StaleFence(_over(session_id))


async def check_pool(context: Context, tenant_id: str, pool_id: str) -> None:
    """Make sure that a pool is this tenant's. Raises NotFound."""
    if context.owners.get(pool_id) == tenant_id:
        return
    async with context.database.snapshot() as transaction:
        pool = await get_pool(transaction, tenant_id, pool_id)
    context.remember_owner(pool.id, tenant_id)


async def heartbeat(context: Context, session_id: str, *, active_version: int | None, slots: int) -> HeartbeatReply:
    """Renew the lease. The answer says what the session still owns and which weights it should run.

    Raises:
        StaleFence: the lease has run out; its work may be another worker's already.
    """
    lease_s = context.settings.session_lease_s
    async with context.database.transaction() as transaction:
        await fleet.renew_session(transaction, session_id, lease_s=lease_s, active_version=active_version, slots=slots)
        session = await live_session(transaction, session_id)
        pool = await get_pool(transaction, session.tenant_id, session.pool_id)
        assert pool.model_id is not None
        model = await get_model(transaction, session.tenant_id, pool.model_id)
        return HeartbeatReply(
            lease_s=lease_s,
            held=await work.held_by_session(transaction, session_id),
            target=await _target(transaction, model),
        )


async def close_session(context: Context, session_id: str) -> None:
    """End a session in good order; what it still holds is queued again and keeps its checkpoints."""
    async with context.database.transaction() as transaction:
        closed = await fleet.end_sessions(transaction, "closed", session_id=session_id)
        items = await work.items_of_sessions(transaction, closed)
        await requeue_items(context, transaction, items, "its worker was stopped", uncount=True)
