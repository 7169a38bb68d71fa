"""Jobs: submit, append, close, pause, resume, cancel; get and list."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from rollway.types import Job, JobCreate, Page, TasksAppend, TasksAppended
from rollway_service.core.errors import BacklogFull, FieldInvalid, NotFound, TokenizerMismatch, VersionUnavailable
from rollway_service.core.ids import new_id
from rollway_service.core.states import check_transition
from rollway_service.dispatch.ports import job_topic, pool_topic, run_topic
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.idempotency import once
from rollway_service.operations.lookups import get_job as find_job
from rollway_service.operations.lookups import get_model, get_run, page_cursor
from rollway_service.operations.pools import ensure_pool
from rollway_service.operations.progress import job_progress
from rollway_service.operations.prompts import PreparedTask, prepare_tasks
from rollway_service.operations.rollout_ends import cancel_open_groups
from rollway_service.policies.recipes import check_recipe
from rollway_service.store import fleet, jobs
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import CounterRow, JobRow, ModelRow

_SEED_BITS = 53


def window_of(spec: JobCreate, model: ModelRow) -> int | None:
    """Tokens that prompt and output may have together: the smaller of model and job; None = unknown."""
    known = [size for size in (model.context_length, spec.limits.max_context_tokens) if size is not None]
    return min(known) if known else None


async def as_job(transaction: Transaction, row: JobRow, counters: CounterRow) -> Job:
    pool = await fleet.pool_by_id(transaction, row.tenant_id, row.pool_id)
    assert pool is not None
    spec = JobCreate.model_validate(row.spec)
    return Job(
        id=row.id,
        run_id=row.run_id,
        name=spec.name,
        purpose=spec.purpose,
        state=row.state,  # type: ignore[arg-type]
        paused=row.paused,
        model_id=row.model_id,
        pool=pool.name,
        seed=row.seed,
        spec=row.spec,
        progress=await job_progress(transaction, row, spec, counters),
        created_at_s=row.created_at_s,
        ended_at_s=row.ended_at_s,
    )


async def _job(transaction: Transaction, tenant_id: str, job_id: str) -> Job:
    row = await find_job(transaction, tenant_id, job_id)
    counters = await jobs.counters_of(transaction, [job_id])
    return await as_job(transaction, row, counters[job_id])


async def _model_of(transaction: Transaction, caller: Caller, request: JobCreate) -> ModelRow:
    """The model that a request names, after all checks that need the store."""
    run = await get_run(transaction, caller.tenant_id, request.run_id)
    try:
        model = await get_model(transaction, caller.tenant_id, request.model or run.model_id)
    except NotFound as error:
        raise FieldInvalid("$.model", error.detail) from None
    wanted = request.tokenizer_digest
    if wanted is not None and model.tokenizer_digest is not None and wanted != model.tokenizer_digest:
        raise TokenizerMismatch(
            f"$.tokenizer_digest: model {model.name!r} has the tokenizer {model.tokenizer_digest}, the job was made"
            f" for {wanted}"
        )
    constraint = request.version
    needed = constraint.min_version if constraint.exact_version is None else constraint.exact_version
    if needed is not None and needed > model.latest_version:
        raise VersionUnavailable(
            f"$.version: version {needed} of model {model.name!r} is not published; the latest is"
            f" {model.latest_version}"
        )
    return model


async def submit_job(context: Context, caller: Caller, request: JobCreate, *, key: str | None = None) -> Job:
    """Store a job with its first tasks, all or nothing."""
    check_recipe(request.recipe)
    _check_backlog(0, len(request.tasks), request)
    async with context.database.snapshot() as transaction:
        model = await _model_of(transaction, caller, request)
    _check_stop_ids(request, model)
    prepared = await prepare_tasks(context, model, request.tasks, window=window_of(request, model))

    async def make() -> Job:
        run = await get_run(transaction, caller.tenant_id, request.run_id)
        pool_name = request.pool
        if pool_name is None:
            default = await fleet.pool_by_id(transaction, caller.tenant_id, run.pool_id)
            assert default is not None
            pool_name = default.name if default.model_id in (None, model.id) else model.name
        pool = await ensure_pool(transaction, caller.tenant_id, pool_name, model)
        job_id = new_id("job")
        seed = request.sampling.seed
        await jobs.insert_job(
            transaction,
            id=job_id,
            tenant_id=caller.tenant_id,
            run_id=run.id,
            model_id=model.id,
            pool_id=pool.id,
            purpose=request.purpose,
            priority=request.priority,
            seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
            base_version=model.latest_version,
            spec=request.model_dump(mode="json", exclude={"tasks", "close"}, exclude_defaults=True),
        )
        row = await find_job(transaction, caller.tenant_id, job_id)
        if prepared:
            await _insert_tasks(transaction, row, 0, prepared)
        if request.close:
            await jobs.set_job_state(transaction, job_id, "closed")
        _wake(context, transaction, row)
        return await _job(transaction, caller.tenant_id, job_id)

    async with context.database.transaction() as transaction:
        return await once(transaction, caller, key, "submit_job", request, make, Job)


def _check_stop_ids(request: JobCreate, model: ModelRow) -> None:
    for index, token_id in enumerate(request.sampling.stop_token_ids):
        if model.vocab_size is not None and token_id >= model.vocab_size:
            raise FieldInvalid(
                f"$.sampling.stop_token_ids[{index}]",
                f"{token_id} is outside the vocabulary of {model.vocab_size}",
            )


def _check_backlog(backlog: int, added: int, spec: JobCreate) -> None:
    bound = spec.limits.max_backlog_tasks
    if backlog + added > bound:
        raise BacklogFull(
            f"the backlog holds {backlog} tasks; {added} more would pass limits.max_backlog_tasks = {bound}."
            " Nothing was stored: send them again when some have been admitted"
        )


async def _insert_tasks(
    transaction: Transaction, job: JobRow, first_index: int, prepared: Sequence[PreparedTask]
) -> None:
    owner = {"tenant_id": job.tenant_id, "run_id": job.run_id, "job_id": job.id}
    rows = [
        {"id": new_id("task"), "task_index": first_index + offset, **owner, **task.as_row()}
        for offset, task in enumerate(prepared)
    ]
    await jobs.insert_tasks(transaction, rows)
    await jobs.add_counts(transaction, job.id, {"tasks": len(rows)})


def _wake(context: Context, transaction: Transaction, job: JobRow) -> None:
    for topic in (pool_topic(job.pool_id), run_topic(job.run_id), job_topic(job.id)):
        transaction.after_commit(lambda topic=topic: context.wakeups.wake(topic))  # type: ignore[misc]


async def append_tasks(
    context: Context, caller: Caller, job_id: str, request: TasksAppend, *, key: str | None = None
) -> TasksAppended:
    """Add tasks to an open job, all or nothing; with `close`, they are the last."""
    async with context.database.snapshot() as transaction:
        job = await find_job(transaction, caller.tenant_id, job_id)
        model = await get_model(transaction, caller.tenant_id, job.model_id)
    spec = JobCreate.model_validate(job.spec)
    prepared = await prepare_tasks(context, model, request.tasks, window=window_of(spec, model))

    async def make() -> TasksAppended:
        counters = (await jobs.counters_of(transaction, [job_id], lock=True))[job_id]
        row = await find_job(transaction, caller.tenant_id, job_id)
        check_transition("job", row.state, "closed", f"job {job_id}")
        backlog = counters.tasks - counters.tasks_admitted
        _check_backlog(backlog, len(prepared), spec)
        await _insert_tasks(transaction, row, counters.tasks, prepared)
        if request.close:
            await jobs.set_job_state(transaction, job_id, "closed")
        _wake(context, transaction, row)
        return TasksAppended(
            job_id=job_id,
            first_task_index=counters.tasks,
            num_tasks=len(prepared),
            backlog=backlog + len(prepared),
        )

    async with context.database.transaction() as transaction:
        return await once(transaction, caller, key, "append_tasks", request, make, TasksAppended, target=job_id)


async def complete_if_done(context: Context, transaction: Transaction, job: JobRow, counters: CounterRow) -> None:
    """A closed job whose groups have all ended is completed."""
    if counters.groups_ended >= counters.tasks and await jobs.set_job_state(transaction, job.id, "completed"):
        _wake(context, transaction, job)


async def close_job(context: Context, caller: Caller, job_id: str) -> Job:
    """No more tasks will come. Closing a closed job changes nothing."""
    async with context.database.transaction() as transaction:
        row = await find_job(transaction, caller.tenant_id, job_id)
        counters = (await jobs.counters_of(transaction, [job_id], lock=True))[job_id]
        row = await find_job(transaction, caller.tenant_id, job_id)
        if row.state == "open":
            await jobs.set_job_state(transaction, job_id, "closed")
            await complete_if_done(context, transaction, row, counters)
            _wake(context, transaction, row)
        elif row.state == "cancelled":
            check_transition("job", row.state, "closed", f"job {job_id}")
        return await _job(transaction, caller.tenant_id, job_id)


async def pause_job(context: Context, caller: Caller, job_id: str, *, paused: bool) -> Job:
    """Hold back, or let go, the admission of further groups; what is in flight goes on."""
    async with context.database.transaction() as transaction:
        row = await find_job(transaction, caller.tenant_id, job_id)
        await jobs.set_paused(transaction, job_id, paused=paused)
        _wake(context, transaction, row)
        return await _job(transaction, caller.tenant_id, job_id)


async def cancel_job(context: Context, caller: Caller, job_id: str) -> Job:
    """End a job now: open groups are cancelled, what is ready stays available."""
    async with context.database.transaction() as transaction:
        # Admission holds the counters locked while it looks at the state: after this it admits nothing more.
        await jobs.counters_of(transaction, [job_id], lock=True)
        row = await find_job(transaction, caller.tenant_id, job_id)
        if row.state != "cancelled":
            check_transition("job", row.state, "cancelled", f"job {job_id}")
            await jobs.set_job_state(transaction, job_id, "cancelled")
    await cancel_open_groups(context, job_id)
    async with context.database.snapshot() as transaction:
        return await _job(transaction, caller.tenant_id, job_id)


async def get_job(context: Context, caller: Caller, job_id: str) -> Job:
    async with context.database.snapshot() as transaction:
        return await _job(transaction, caller.tenant_id, job_id)


async def list_jobs(
    context: Context,
    caller: Caller,
    *,
    run_id: str | None = None,
    purpose: str | None = None,
    state: str | None = None,
    cursor: str | None,
    limit: int,
) -> Page[Job]:
    async with context.database.snapshot() as transaction:
        rows = await jobs.list_jobs(
            transaction,
            caller.tenant_id,
            page_cursor(cursor, limit, "job"),
            {"run_id": run_id, "purpose": purpose, "state": state},
        )
        counters = await jobs.counters_of(transaction, [row.id for row in rows])
        items = [await as_job(transaction, row, counters[row.id]) for row in rows]
    return Page(items=items, next_cursor=rows[-1].id if len(rows) == limit else None)
