"""The `rollway` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; errors of the service, and files that are not there, are one line on stderr and exit code 1."""
    from rollway.cli.app import app  # noqa: PLC0415 - typer and rich only when the command runs
    from rollway.errors import RollwayError  # noqa: PLC0415

    try:
        app()
    except RollwayError as error:
        print(f"rollway: {error}", file=sys.stderr)
        for field in getattr(error, "errors", []):
            print(f"  {field.path}: {field.message}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        print(f"rollway: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
