"""API keys: `rw_<prefix>_<secret>`. Only a hash of the secret is stored; each key belongs to one tenant."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from rollway_service.core.errors import Unauthenticated
from rollway_service.core.ids import new_id
from rollway_service.operations.context import Caller, Context
from rollway_service.store import accounts

ALL_SCOPES = ("jobs", "batches", "models", "pools", "research", "admin")
_PATTERN = re.compile(r"^rw_([0-9a-f]{12})_([0-9A-Za-z_-]{32,64})$")


def make_token() -> str:
    return f"rw_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


async def ensure_tenant(context: Context, name: str) -> str:
    """The id of the tenant of this name, made if new."""
    async with context.database.transaction() as transaction:
        return await accounts.ensure_tenant(transaction, new_id("tenant"), name)


async def add_key(
    context: Context, tenant_id: str, name: str, *, token: str | None = None, scopes: tuple[str, ...] = ALL_SCOPES
) -> str:
    """Store a key for a tenant and return it: this is the only time that it can be seen."""
    token = token or make_token()
    match = _PATTERN.match(token)
    if match is None:
        raise Unauthenticated("a key looks like rw_<12 hex digits>_<secret of 32 to 64 characters>")
    async with context.database.transaction() as transaction:
        await accounts.insert_key(
            transaction,
            id=new_id("key"),
            tenant_id=tenant_id,
            name=name,
            prefix=match[1],
            secret_sha256=_hash(match[2]),
            scopes=list(scopes),
        )
    return token


async def authenticate(context: Context, token: str | None) -> Caller:
    """Who holds this key. Raises Unauthenticated for anything but a live key."""
    match = _PATTERN.match(token or "")
    if match is None:
        raise Unauthenticated
    async with context.database.snapshot() as transaction:
        key = await accounts.key_by_prefix(transaction, match[1])
    if key is None or not hmac.compare_digest(key.secret_sha256, _hash(match[2])):
        raise Unauthenticated
    return Caller(tenant_id=key.tenant_id, key_id=key.id, scopes=frozenset(key.scopes))
