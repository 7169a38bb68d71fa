"""Column types that hold on both databases, and the database's clock.

Text and JSON from models is hostile: PostgreSQL stores no NUL in text or jsonb. `SafeText` and `SafeJson` write NUL as
two ordinary characters and read it back unchanged, so one bad row never fails its neighbours.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from sqlalchemy import JSON, Float, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

_MARK = "\ue000"
_NUL = "\0"
_INT64_MAX = 2**63 - 1
_MAYBE_HUGE = re.compile("[0-9]{19}")


def escape_nul(text: str) -> str:
    """NUL becomes U+E000 '0' and U+E000 becomes U+E000 '1'; all else stays."""
    if _MARK in text:
        text = text.replace(_MARK, _MARK + "1")
    return text.replace(_NUL, _MARK + "0") if _NUL in text else text


def unescape_nul(text: str) -> str:
    if _MARK not in text:
        return text
    return text.replace(_MARK + "0", _NUL).replace(_MARK + "1", _MARK)


def _walk(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_walk(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): _walk(item, change) for key, item in value.items()}
    return value


def dump_json(value: Any) -> str:
    """JSON text without NUL; NaN and infinities become null. Raises TypeError for what JSON cannot hold."""
    text = orjson.dumps(value).decode()
    if "\\u0000" in text or _MARK in text:
        text = orjson.dumps(_walk(value, escape_nul)).decode()
    return text


def _huge_as_floats(value: Any) -> Any:
    """Undo what jsonb does to 9.3e18, which it gives back as 9300000000000000000. No integer that large is stored."""
    if type(value) is int and value > _INT64_MAX:
        return float(value)
    if isinstance(value, list):
        return [_huge_as_floats(item) for item in value]
    if isinstance(value, dict):
        return {key: _huge_as_floats(item) for key, item in value.items()}
    return value


def load_json(text: str) -> Any:
    value = orjson.loads(text)
    if _MAYBE_HUGE.search(text):
        value = _huge_as_floats(value)
    return _walk(value, unescape_nul) if _MARK in text else value


class SafeText(TypeDecorator[str]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape_nul(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else unescape_nul(value)


class SafeJson(TypeDecorator[Any]):
    """JSON kept as jsonb on PostgreSQL and as text on SQLite, written and read by this module alone."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(_RawJsonb())
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else dump_json(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else load_json(value)


class _RawJsonb(JSONB):
    """jsonb whose text is neither encoded nor decoded on the way."""

    def bind_processor(self, dialect: Dialect) -> None:
        return None

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        return None


class now_s(FunctionElement[float]):  # noqa: N801 - reads as a SQL function
    """Seconds since 1970 by the database's clock, which alone judges leases."""

    type = Float()
    inherit_cache = True


@compiles(now_s, "postgresql")
def _now_postgresql(element: now_s, compiler: Any, **kwargs: Any) -> str:
    return "extract(epoch from clock_timestamp())::float8"


@compiles(now_s, "sqlite")
def _now_sqlite(element: now_s, compiler: Any, **kwargs: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"
