"""Ground rules of every type on the wire.

Requests refuse unknown keys, NaN and infinities, and numbers written as strings; responses drop unknown keys, so that
an old SDK survives a new field. Text that names things holds no control characters; free text may hold any character
that is valid Unicode, NUL included (stored reversibly). A lone surrogate is not valid Unicode and is always refused.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StrictInt
from pydantic_core import PydanticCustomError

T = TypeVar("T")

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT32_MAX = 2**31 - 1
MAX_NAME_CHARS = 200
MAX_TEXT_CHARS = 4_000_000
MAX_JSON_DEPTH = 32


class Request(BaseModel):
    """A body or part of a body that a client sends."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Response(BaseModel):
    """A body or part of a body that the service answers."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, ser_json_inf_nan="null")


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _check_unicode(text: str) -> str:
    if not text.isascii() and any(map(_is_surrogate, text)):
        raise ValueError("holds a lone surrogate, which is not valid Unicode; send replaced or escaped text")
    return text


def _check_name(name: str) -> str:
    _check_unicode(name)
    if not name.isprintable():
        raise ValueError("holds a control or unprintable character; names must be printable")
    if name != name.strip():
        raise ValueError("starts or ends with white space")
    return name


def _json_error(suffix: str, message: str) -> PydanticCustomError:
    """An error about a value inside a free JSON value; `suffix` continues the JSON path of the field."""
    template = "at {suffix}: {message}" if suffix else "{message}"
    return PydanticCustomError("json_value", template, {"message": message, "suffix": suffix})


def _check_json(value: Any, suffix: str = "", depth: int = 0) -> Any:
    """Before pydantic's own check, whose locations name the types on the way (`.list[0].dict.x.float`)."""
    if depth > MAX_JSON_DEPTH:
        raise _json_error(suffix, f"is nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise _json_error(suffix, f"is {value}, which JSON does not have; send null")
    if isinstance(value, int) and not isinstance(value, bool) and not INT64_MIN <= value <= INT64_MAX:
        raise _json_error(suffix, "is outside the range of int64; send it as a string")
    if isinstance(value, str):
        _check_nested_text(value, suffix)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_json(item, f"{suffix}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                _check_nested_text(key, suffix)
            _check_json(item, f"{suffix}.{key}", depth + 1)
    return value


def _check_nested_text(text: str, suffix: str) -> None:
    try:
        _check_unicode(text)
    except ValueError as error:
        raise _json_error(suffix, str(error)) from None


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS), AfterValidator(_check_name)]
Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS), AfterValidator(_check_unicode)]
Json = Annotated[JsonValue, BeforeValidator(_check_json)]
Metadata = Annotated[dict[str, JsonValue], BeforeValidator(_check_json)]
Tags = Annotated[list[Name], Field(max_length=64)]
Seed = Annotated[StrictInt, Field(ge=INT64_MIN, le=INT64_MAX, description="int64")]
TokenId = Annotated[StrictInt, Field(ge=0, le=INT32_MAX)]
Version = Annotated[StrictInt, Field(ge=0, le=INT32_MAX)]
Step = Annotated[StrictInt, Field(ge=0, le=INT64_MAX)]
Seconds = Annotated[float, Field(gt=0, le=30 * 24 * 3600)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", description="sha256:<64 hex digits>")]


class Page(Response, Generic[T]):
    """One page of a list; ask again with `cursor=next_cursor` until it is null."""

    items: list[T]
    next_cursor: str | None = None


def without_none(model: BaseModel) -> dict[str, Any]:
    """The model as JSON-ready values, absent where null."""
    return model.model_dump(mode="json", exclude_none=True)
