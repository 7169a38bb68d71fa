"""How long `import rollway` takes, in processes of their own."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator

from tests.bench.figures import Figure, Options, machine

_SCRIPT = """
import sys, time
started = time.perf_counter()
import rollway
rollway.Client
print(time.perf_counter() - started)
assert "torch" not in sys.modules and "fastapi" not in sys.modules
"""


def measure(options: Options) -> Iterator[Figure]:
    times_s = [
        float(subprocess.run([sys.executable, "-c", _SCRIPT], check=True, capture_output=True, text=True).stdout)
        for _ in range(5 if options.is_short else 15)
    ]
    how = f"median of {len(times_s)} new processes, {machine()}"
    yield Figure("sdk.import_s", round(statistics.median(times_s), 3), "s", "<= 0.3", how)
