"""Tenants, API keys and idempotency keys."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.schema import Table

from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.rows import KeyRow, as_row_or_none
from rollway_service.store.tables import api_keys, idempotency_keys, tenants


def insert_or_ignore(transaction: Transaction, table: Table) -> Insert:
    """An insert that does nothing where the primary or a unique key exists."""
    if transaction.dialect == "postgresql":
        return postgresql_insert(table).on_conflict_do_nothing()
    return sqlite_insert(table).on_conflict_do_nothing()


async def ensure_tenant(transaction: Transaction, tenant_id: str, name: str) -> str:
    """The id of the tenant of this name, made under `tenant_id` if new."""
    await transaction.execute(
        insert_or_ignore(transaction, tenants).values(id=tenant_id, name=name, created_at_s=now_s())
    )
    return str(await transaction.scalar(select(tenants.c.id).where(tenants.c.name == name)))


async def insert_key(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert_or_ignore(transaction, api_keys).values(created_at_s=now_s(), **values))


async def key_by_prefix(transaction: Transaction, prefix: str) -> KeyRow | None:
    """A key that is neither revoked nor expired."""
    row = await transaction.one(
        select(api_keys).where(
            api_keys.c.prefix == prefix,
            api_keys.c.revoked_at_s.is_(None),
            (api_keys.c.expires_at_s.is_(None)) | (api_keys.c.expires_at_s > now_s()),
        )
    )
    return as_row_or_none(KeyRow, row)


async def revoke_key(transaction: Transaction, tenant_id: str, key_id: str) -> bool:
    rows = await transaction.execute(
        update(api_keys)
        .where(api_keys.c.id == key_id, api_keys.c.tenant_id == tenant_id, api_keys.c.revoked_at_s.is_(None))
        .values(revoked_at_s=now_s())
    )
    return rows == 1


async def reserve_idempotency_key(transaction: Transaction, tenant_id: str, key: str, verb: str, body: str) -> bool:
    """True when this transaction is the first with the key; a concurrent one waits here for its end."""
    rows = await transaction.execute(
        insert_or_ignore(transaction, idempotency_keys).values(
            tenant_id=tenant_id, key=key, verb=verb, body_sha256=body, answer=[], created_at_s=now_s()
        )
    )
    return rows == 1


async def idempotency_answer(transaction: Transaction, tenant_id: str, key: str) -> tuple[str, str, Any]:
    """(verb, body hash, stored answer) of a key that exists."""
    row = await transaction.one(
        select(idempotency_keys.c.verb, idempotency_keys.c.body_sha256, idempotency_keys.c.answer).where(
            idempotency_keys.c.tenant_id == tenant_id, idempotency_keys.c.key == key
        )
    )
    assert row is not None
    return row["verb"], row["body_sha256"], row["answer"]


async def store_idempotency_answer(
    transaction: Transaction, tenant_id: str, key: str, answer: Any, run_id: str | None, job_id: str | None
) -> None:
    await transaction.execute(
        update(idempotency_keys)
        .where(idempotency_keys.c.tenant_id == tenant_id, idempotency_keys.c.key == key)
        .values(answer=answer, run_id=run_id, job_id=job_id)
    )
