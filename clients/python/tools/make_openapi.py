"""Write `clients/openapi.json`, the schema that client generators read, from the routes.

python clients/python/tools/make_openapi.py           write
python clients/python/tools/make_openapi.py --check   fail when the file differs from what would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rollway_service.api.app import create_app

TARGET = Path(__file__).parents[2] / "openapi.json"


def main() -> int:
    text = json.dumps(create_app(None).openapi(), indent=1, sort_keys=True) + "\n"
    if "--check" not in sys.argv:
        TARGET.write_text(text)
        return 0
    if not TARGET.is_file() or TARGET.read_text() != text:
        print("clients/openapi.json differs from the routes: run `make openapi`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
