"""How long `import rollway` takes, in processes of their own; and how long until the client is there, which loads httpx."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.figures import Figure, Options, machine

_SCRIPT = """
import json, sys, time
started = time.perf_counter()
import rollway
imported = time.perf_counter()
rollway.Client
ready = time.perf_counter()
assert "torch" not in sys.modules and "fastapi" not in sys.modules
print(json.dumps([imported - started, ready - started]))
"""


def measure(options: Options) -> Iterator[Figure]:
    times_s = [
        json.loads(subprocess.run([sys.executable, "-c", _SCRIPT], check=True, capture_output=True, text=True).stdout)
        for _ in range(5 if options.is_short else 15)
    ]
    imported_s, ready_s = (statistics.median(column) for column in zip(*times_s, strict=True))
    how = f"median of {len(times_s)} new processes, {machine()}; until rollway.Client is loaded too: {ready_s:.2f} s"
    yield Figure("sdk.import_s", round(imported_s, 3), "s", "<= 0.3", how)
