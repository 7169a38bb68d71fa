"""Figures that Rollway shows of itself: `python -m tests.bench NAME`, or `all`, which also writes bench.json.

Exits 0 when it measured, whatever the value.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from tests.bench import demo, engine, lease, overhead, sdk
from tests.bench.figures import Figure, Options

BENCHES: dict[str, Callable[[Options], Iterator[Figure]]] = {
    "sdk": sdk.measure,
    "overhead": overhead.measure,
    "engine": engine.measure,
    "lease": lease.measure,
    "demo": demo.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", choices=[*BENCHES, "all"])
    parser.add_argument("--short", action="store_true", help="a quick look")
    parser.add_argument("--full", action="store_true", help="as long as the figure deserves")
    parsed = parser.parse_args()
    options = Options(is_short=parsed.short, is_full=parsed.full)
    names = list(BENCHES) if parsed.name == "all" else [parsed.name]
    figures = []
    for name in names:
        for figure in BENCHES[name](options):
            sys.stdout.write(figure.line() + "\n")
            sys.stdout.flush()
            figures.append(figure)
    if parsed.name == "all":
        Path("bench.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
