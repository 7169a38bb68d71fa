"""Fail when the tables differ from what the migrations make, on a new SQLite database (tests do the same on PostgreSQL)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from alembic import command
from alembic.config import Config

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ROLLWAY_DATABASE_URL"] = f"sqlite:///{folder}/check.db"
        config = Config(toml_file=Path(__file__).parents[1] / "pyproject.toml")
        command.upgrade(config, "head")
        command.check(config)
