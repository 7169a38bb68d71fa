"""Make `rollway/_sync` from `rollway/_async`: the SDK is written once, async, and this takes the asyncs out.

python clients/python/tools/make_sync_client.py           write
python clients/python/tools/make_sync_client.py --check   fail when the files differ from what would be written
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import unasync

PACKAGE = Path(__file__).parents[1] / "rollway"
HAND_WRITTEN = {"waiting.py", "channels.py"}
NAMES = {
    "AsyncClient": "Client",
    "AsyncTransport": "Transport",
    "AsyncRestTransport": "RestTransport",
    "AsyncGrpcTransport": "GrpcTransport",
    "AsyncRunHandle": "RunHandle",
    "AsyncJobHandle": "JobHandle",
    "AsyncBatches": "Batches",
    "AsyncLeasedBatch": "LeasedBatch",
    "aclose": "close",
    "aread": "read",
    "aiter_lines": "iter_lines",
    "_async": "_sync",
}


def generate(folder: Path) -> None:
    """Write the sync files into `folder`, formatted."""
    sources = [str(path) for path in sorted((PACKAGE / "_async").glob("*.py")) if path.name not in HAND_WRITTEN]
    rule = unasync.Rule(str(PACKAGE / "_async"), str(folder), additional_replacements=NAMES)
    unasync.unasync_files(sources, [rule])
    for path in folder.glob("*.py"):
        text = path.read_text()
        path.write_text(text.replace("written once: `_sync` is made from these files", "made from `_async`"))
    subprocess.run([sys.executable, "-m", "ruff", "check", "-q", "--fix", "--select", "I", str(folder)], check=False)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(folder)], check=True)


def main() -> int:
    target = PACKAGE / "_sync"
    if "--check" not in sys.argv:
        generate(target)
        return 0
    with tempfile.TemporaryDirectory(dir=PACKAGE) as folder:
        generate(Path(folder))
        stale = [
            path.name
            for path in Path(folder).glob("*.py")
            if not (target / path.name).is_file() or (target / path.name).read_text() != path.read_text()
        ]
    if stale:
        print(f"rollway/_sync differs from rollway/_async in {', '.join(stale)}: run `make sdk`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
