"""Write the Python modules of the .proto files beside them.

python clients/python/tools/make_proto.py           write
python clients/python/tools/make_proto.py --check   fail when a module differs from what would be written
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "rollway" / "proto"


def generate(target: Path) -> None:
    """Compile every .proto file under FOLDER into `target`, at the same relative paths.

    Raises:
        SystemExit: a file does not compile; protoc has said why on stderr.
    """
    sources = sorted(str(path) for path in FOLDER.rglob("*.proto"))
    well_known = files("grpc_tools") / "_proto"
    options = [f"--python_out={target}", f"--pyi_out={target}", f"--grpc_python_out={target}"]
    if protoc.main(["protoc", f"-I{ROOT}", f"-I{well_known}", *options, *sources]) != 0:
        raise SystemExit(1)


def generated(root: Path) -> dict[Path, bytes]:
    folder = root / "rollway" / "proto"
    names = [path for suffix in ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py") for path in folder.rglob(suffix)]
    return {path.relative_to(root): path.read_bytes() for path in sorted(names)}


def main() -> int:
    if "--check" not in sys.argv:
        for path in generated(ROOT):
            (ROOT / path).unlink()
        generate(ROOT)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        expected, found = generated(Path(folder)), generated(ROOT)
    differing = sorted(str(path) for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
    if differing:
        print(f"differ from the .proto files: {', '.join(differing)}: run `make proto`")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
