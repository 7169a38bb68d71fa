"""Wire types as protobuf messages of the same names, and back, by the messages' descriptors.

An absent field is one that was not set; NaN in a list stands for null; free JSON travels as text; the field that is set
in a union's oneof is its `kind`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from pydantic import BaseModel

import rollway.types
from rollway.types import Request

T = TypeVar("T", bound=BaseModel)
M = TypeVar("M", bound=Message)

_LISTS = frozenset({"Ints", "Doubles", "Strings", "MessageList"})
_JSON = "Json"
_PAGE = "Page"


class CodecError(ValueError):
    """A message that does not say what its type needs. `path` is a JSON path into the body."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(f"{path}: {message}")


def encode(value: BaseModel, message_type: type[M]) -> M:
    """The value as a message. Of requests, only what was set."""
    message = message_type()
    fill(message, value.model_dump(exclude_unset=isinstance(value, Request)))
    return message


def fill(message: Message, values: Mapping[str, Any]) -> None:
    """Set a message's fields from values by their names; None is left out."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if value is not None:
            _set(message, fields[name], value)


def _set(message: Message, field: FieldDescriptor, value: Any) -> None:
    target = getattr(message, field.name)
    if field.message_type is None:
        if field.is_repeated:
            target.extend(_numbers(value))
        else:
            setattr(message, field.name, value)
    elif field.message_type.GetOptions().map_entry:
        _set_map(target, field, value)
    elif field.is_repeated:
        for item in value:
            _set_message(target.add(), item)
    else:
        target.SetInParent()
        _set_message(target, value)


def _set_map(target: Any, field: FieldDescriptor, value: Mapping[str, Any]) -> None:
    for key, item in value.items():
        if field.message_type.fields_by_name["value"].message_type is None:
            target[key] = item
        else:
            _set_message(target[key], item)


def _set_message(message: Any, value: Any) -> None:
    kind = message.DESCRIPTOR.name
    if kind == _JSON:
        message.text = orjson.dumps(value).decode()
    elif kind == "MessageList":
        for item in value:
            fill(message.values.add(), item)
    elif kind in _LISTS:
        message.values.extend(_numbers(value))
    elif _is_union(message):
        chosen = getattr(message, value["kind"])
        chosen.SetInParent()
        fill(chosen, {name: item for name, item in value.items() if name != "kind"})
    else:
        fill(message, value)


def _is_union(message: Message) -> bool:
    return "kind" in message.DESCRIPTOR.oneofs_by_name


def _numbers(values: Any) -> Any:
    return [math.nan if value is None else value for value in values] if None in values else values


def decode(message: Message, model: type[T]) -> T:
    """The value that a message of the service means; fields of a newer service are dropped, as from JSON.

    Raises CodecError, pydantic.ValidationError.
    """
    return model.model_validate(read(message, is_strict=False))


def read(
    message: Message, *, path: str = "$", loads: Callable[[str], Any] = orjson.loads, is_strict: bool = True
) -> dict[str, Any]:
    """A message's fields as JSON-like values, ready to be validated.

    Args:
        path: where the message is, for errors.
        loads: reads free JSON.
        is_strict: refuse fields that are not known here.

    Raises:
        CodecError: it has such fields, or JSON that is none.
    """
    unknown = UnknownFieldSet(message) if is_strict else ()
    if len(unknown):
        numbers = ", ".join(str(field.field_number) for field in unknown)
        raise CodecError(path, f"has fields that this version does not know (numbers {numbers})")
    found = {
        field.name: _read_field(field, value, f"{path}.{field.name}", loads, is_strict)
        for field, value in message.ListFields()
    }
    _complete(message, found)
    return found


def _complete(message: Message, found: dict[str, Any]) -> None:
    """Fill in what a message cannot tell from absence: nulls and empty lists that must be given."""
    if message.DESCRIPTOR.name.endswith(_PAGE):
        found.setdefault("items", [])
    model = getattr(rollway.types, message.DESCRIPTOR.name, None)
    if model is None or _is_union(message):
        return
    for name, field in message.DESCRIPTOR.fields_by_name.items():
        if name in found or not model.model_fields[name].is_required():
            continue
        if field.is_repeated:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            found[name] = {} if is_map else []
        elif type(None) in getattr(model.model_fields[name].annotation, "__args__", ()):
            found[name] = None


def _read_field(field: FieldDescriptor, value: Any, path: str, loads: Callable[[str], Any], is_strict: bool) -> Any:
    if field.message_type is None:
        return _nulls(field, value) if field.is_repeated else value
    if field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        if inner.message_type is None:
            return dict(value)
        return {key: _read_message(item, f"{path}.{key}", loads, is_strict) for key, item in value.items()}
    if field.is_repeated:
        return [_read_message(item, f"{path}[{index}]", loads, is_strict) for index, item in enumerate(value)]
    return _read_message(value, path, loads, is_strict)


def _read_message(message: Any, path: str, loads: Callable[[str], Any], is_strict: bool) -> Any:
    kind = message.DESCRIPTOR.name
    if kind == _JSON:
        try:
            return loads(message.text)
        except ValueError as error:
            raise CodecError(path, f"holds no JSON: {error}") from None
    if kind == "MessageList":
        return [read(item, path=f"{path}[{index}]", loads=loads, is_strict=is_strict) for index, item in enumerate(message.values)]
    if kind in _LISTS:
        return _nulls(message.DESCRIPTOR.fields_by_name["values"], message.values)
    if _is_union(message):
        chosen = message.WhichOneof("kind")
        if chosen is None:
            read(message, path=path, is_strict=is_strict)
            raise CodecError(path, "has no kind: set one of its fields")
        return {"kind": chosen} | read(getattr(message, chosen), path=path, loads=loads, is_strict=is_strict)
    return read(message, path=path, loads=loads, is_strict=is_strict)


def _nulls(field: FieldDescriptor, values: Any) -> list[Any]:
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return [None if math.isnan(value) else value for value in values]
    return list(values)
