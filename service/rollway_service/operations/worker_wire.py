"""Messages between workers and operations as protobuf, and back, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
from pydantic import TypeAdapter

from rollway.proto.worker.v1 import worker_pb2 as pb
from rollway.types import JobCreate, TreeLayout
from rollway_service.core.errors import FieldInvalid
from rollway_service.core.tree import PackedTree
from rollway_service.operations.messages import (
    CheckpointPiece,
    ClaimedItem,
    Claims,
    FinishedRollout,
    HeartbeatReply,
    ModelFacts,
    PoolFacts,
    SessionOpened,
    VersionTarget,
    WorkerHello,
)

_OUTCOME = TypeAdapter(FinishedRollout)


def _optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _json(name: str, data: bytes, kind: type) -> Any:
    """JSON of a message. Raises FieldInvalid for what is none, or of another kind."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FieldInvalid(f"$.{name}", f"holds no JSON: {error}") from None
    if not isinstance(value, kind):
        raise FieldInvalid(f"$.{name}", f"is {type(value).__name__}, not {kind.__name__}")
    return value


def target_to_wire(target: VersionTarget) -> pb.VersionTarget:
    return pb.VersionTarget(version=target.version, source=target.source, digest=target.digest)


def target_from_wire(message: pb.VersionTarget) -> VersionTarget:
    return VersionTarget(message.version, message.source, _optional(message, "digest"))


def pool_to_wire(facts: PoolFacts) -> pb.PoolFacts:
    model = facts.model
    return pb.PoolFacts(
        pool_id=facts.pool_id,
        name=facts.name,
        profile=facts.profile,
        model=pb.ModelFacts(
            id=model.id,
            name=model.name,
            source=model.source,
            tokenizer_digest=model.tokenizer_digest,
            vocab_size=model.vocab_size,
            context_length=model.context_length,
            eos_token_ids=model.eos_token_ids,
        ),
        target=target_to_wire(facts.target),
    )


def pool_from_wire(message: pb.PoolFacts) -> PoolFacts:
    model = message.model
    return PoolFacts(
        pool_id=message.pool_id,
        name=message.name,
        profile=message.profile,
        model=ModelFacts(
            id=model.id,
            name=model.name,
            source=model.source,
            tokenizer_digest=_optional(model, "tokenizer_digest"),
            vocab_size=_optional(model, "vocab_size"),
            context_length=_optional(model, "context_length"),
            eos_token_ids=tuple(model.eos_token_ids),
        ),
        target=target_from_wire(message.target),
    )


def hello_to_wire(hello: WorkerHello) -> pb.OpenSessionRequest:
    return pb.OpenSessionRequest(
        pool_id=hello.pool_id,
        name=hello.name,
        slots=hello.slots,
        engine_json=orjson.dumps(dict(hello.engine)),
        active_version=hello.active_version,
    )


def hello_from_wire(message: pb.OpenSessionRequest) -> WorkerHello:
    return WorkerHello(
        pool_id=message.pool_id,
        name=message.name,
        slots=message.slots,
        engine=_json("engine_json", message.engine_json, dict),
        active_version=_optional(message, "active_version"),
    )


def session_to_wire(opened: SessionOpened) -> pb.SessionOpened:
    return pb.SessionOpened(
        session_id=opened.session_id, worker_id=opened.worker_id, epoch=opened.epoch, lease_s=opened.lease_s
    )


def session_from_wire(message: pb.SessionOpened) -> SessionOpened:
    return SessionOpened(message.session_id, message.worker_id, message.epoch, message.lease_s)


def heartbeat_to_wire(reply: HeartbeatReply) -> pb.HeartbeatReply:
    return pb.HeartbeatReply(lease_s=reply.lease_s, held=dict(reply.held), target=target_to_wire(reply.target))


def heartbeat_from_wire(message: pb.HeartbeatReply) -> HeartbeatReply:
    return HeartbeatReply(message.lease_s, dict(message.held), target_from_wire(message.target))


def claims_to_wire(claims: Claims) -> Iterator[pb.ClaimPart]:
    """Parts of a claim's answer: the jobs, then the items."""
    for job_id, spec in claims.jobs.items():
        job = pb.ClaimedJob(job_id=job_id, spec_json=spec.model_dump_json(exclude_unset=True).encode())
        yield pb.ClaimPart(job=job)
    for item in claims.items:
        yield pb.ClaimPart(item=_item_to_wire(item))


def _item_to_wire(item: ClaimedItem) -> pb.ClaimedItem:
    return pb.ClaimedItem(
        work_item_id=item.work_item_id,
        fence=item.fence,
        run_id=item.run_id,
        job_id=item.job_id,
        group_id=item.group_id,
        task_id=item.task_id,
        rollout_id=item.rollout_id,
        task_index=item.task_index,
        member_index=item.member_index,
        seed=item.seed,
        attempts=item.attempts,
        prompt_ids=item.prompt_ids.astype("<i4", copy=False).tobytes(),
        reference_json=orjson.dumps(item.reference),
        metadata_json=orjson.dumps(dict(item.metadata)),
        checkpoints=item.checkpoints,
        remaining_s=item.remaining_s,
        queued_s=item.queued_s,
        exact_version=item.exact_version,
        min_version=item.min_version,
    )


def _item_from_wire(message: pb.ClaimedItem) -> ClaimedItem:
    return ClaimedItem(
        work_item_id=message.work_item_id,
        fence=message.fence,
        run_id=message.run_id,
        job_id=message.job_id,
        group_id=message.group_id,
        task_id=message.task_id,
        rollout_id=message.rollout_id,
        task_index=message.task_index,
        member_index=message.member_index,
        seed=message.seed,
        attempts=message.attempts,
        prompt_ids=np.frombuffer(message.prompt_ids, dtype="<i4"),
        reference=orjson.loads(message.reference_json),
        metadata=orjson.loads(message.metadata_json),
        checkpoints=list(message.checkpoints),
        remaining_s=message.remaining_s,
        queued_s=message.queued_s,
        exact_version=_optional(message, "exact_version"),
        min_version=_optional(message, "min_version"),
    )


def claims_from_wire(parts: Iterable[pb.ClaimPart]) -> Claims:
    items, jobs = [], {}
    for part in parts:
        if part.WhichOneof("part") == "job":
            jobs[part.job.job_id] = JobCreate.model_validate_json(part.job.spec_json)
        else:
            items.append(_item_from_wire(part.item))
    return Claims(items=items, jobs=jobs)


def piece_to_wire(piece: CheckpointPiece) -> pb.CheckpointPiece:
    return pb.CheckpointPiece(
        work_item_id=piece.work_item_id,
        fence=piece.fence,
        sequence=piece.sequence,
        sampled_tokens=piece.sampled_tokens,
        payload=piece.payload,
    )


def piece_from_wire(message: pb.CheckpointPiece) -> CheckpointPiece:
    return CheckpointPiece(
        work_item_id=message.work_item_id,
        fence=message.fence,
        sequence=message.sequence,
        sampled_tokens=message.sampled_tokens,
        payload=message.payload,
    )


def finished_to_wire(finished: FinishedRollout) -> pb.FinishedRollout:
    tree = None
    if finished.tree is not None:
        tree = pb.PackedTree(
            container=finished.tree.container,
            layout_json=finished.tree.layout.model_dump_json().encode(),
            first_node=finished.tree.first_node,
            continues=finished.tree.continues,
            base_tokens=finished.tree.base_tokens,
        )
    return pb.FinishedRollout(
        work_item_id=finished.work_item_id,
        fence=finished.fence,
        tree=tree,
        outcome_json=_OUTCOME.dump_json(replace(finished, tree=None)),
    )


def finished_from_wire(message: pb.FinishedRollout) -> FinishedRollout:
    """Raises pydantic.ValidationError for an outcome that is none."""
    tree = None
    if message.HasField("tree"):
        tree = PackedTree(
            container=message.tree.container,
            layout=TreeLayout.model_validate_json(message.tree.layout_json),
            first_node=message.tree.first_node,
            continues=message.tree.continues,
            base_tokens=message.tree.base_tokens,
        )
    outcome = _OUTCOME.validate_json(message.outcome_json)
    return replace(outcome, work_item_id=message.work_item_id, fence=message.fence, tree=tree)
