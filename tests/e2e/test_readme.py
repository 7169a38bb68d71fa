"""What the README shows works as it says."""

import asyncio
import os
import re
import sys
from pathlib import Path

from tests.processes import running_service

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


async def test_the_ten_lines_run_against_a_service_that_was_just_started(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    async with running_service(tmp_path, engine="embedded") as (_, url):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            example,
            env={**os.environ, "HOME": str(tmp_path), "ROLLWAY_URL": url},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    lines = out.decode().splitlines()
    seen = {int(line.split()[0]) for line in lines if re.match(r"\d+ \[", line)}
    assert seen == {0, 1, 2, 3}
    assert 0.0 <= float(lines[-1]) <= 1.0


def test_every_file_that_the_readme_names_is_there():
    named = re.findall(r"`((?:clients|service|workers|migrations|tests|deploy)/[\w./]+)`", README)
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_target_that_the_readme_names_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", README))
    assert {"demo", "test", "check", "bench"} <= named <= targets | {"test-all"}
