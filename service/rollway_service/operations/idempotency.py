"""Doing a thing once, however often it is asked for.

Keys belong to a tenant and are kept as long as what they made. The same key with the same body answers what was
answered first; with another body it is a conflict.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rollway.types import Request, Response
from rollway_service.core.errors import FieldInvalid, IdempotencyConflict
from rollway_service.core.ids import is_id
from rollway_service.operations.context import Caller
from rollway_service.store import accounts
from rollway_service.store.ports import Transaction

T = TypeVar("T", bound=Response)
MAX_KEY_CHARS = 200


def _body_hash(verb: str, target: str, body: Request) -> str:
    return hashlib.sha256(f"{verb}\n{target}\n{body.model_dump_json()}".encode()).hexdigest()


async def once(
    transaction: Transaction,
    caller: Caller,
    key: str | None,
    verb: str,
    body: Request,
    make: Callable[[], Awaitable[T]],
    answer_type: type[T],
    *,
    target: str = "",
) -> T:
    """What `make` answers, made at most once per key.

    Args:
        key: the caller's Idempotency-Key; None makes it anew each time.
        verb, target, body: what is asked; a key that was used for anything else is refused.

    Raises:
        IdempotencyConflict: the key was used for another body.
    """
    if key is None:
        return await make()
    if not 1 <= len(key) <= MAX_KEY_CHARS or not key.isprintable():
        raise FieldInvalid("Idempotency-Key", f"must have 1 to {MAX_KEY_CHARS} printable characters")
    body_hash = _body_hash(verb, target, body)
    if await accounts.reserve_idempotency_key(transaction, caller.tenant_id, key, verb, body_hash):
        answer = await make()
        stored = answer.model_dump(mode="json")
        ids = (stored.get("job_id"), stored.get("id"))
        job_id = next((value for value in ids if value is not None and is_id("job", value)), None)
        await accounts.store_idempotency_answer(
            transaction, caller.tenant_id, key, stored, stored.get("run_id"), job_id
        )
        return answer
    _, first_hash, first_answer = await accounts.idempotency_answer(transaction, caller.tenant_id, key)
    if first_hash != body_hash:
        raise IdempotencyConflict
    return answer_type.model_validate(first_answer)
