"""How the command prints: tables and bars for people, JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

console = Console()


def print_json(item: BaseModel | dict[str, Any]) -> None:
    """One JSON line on stdout."""
    import orjson  # noqa: PLC0415 - only where needed

    text = item.model_dump_json() if isinstance(item, BaseModel) else orjson.dumps(item).decode()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_rows(items: Iterable[BaseModel], columns: Sequence[str], *, as_json: bool) -> None:
    """A table of these attributes, or all of each item as JSON lines."""
    if as_json:
        for item in items:
            print_json(item)
        return
    table = Table(*columns)
    for item in items:
        table.add_row(*(_cell(getattr(item, column)) for column in columns))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)
