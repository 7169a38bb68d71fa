"""A real SGLang on the CPU for tests, by the launcher that workers use."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from safetensors.numpy import load_file, save_file

from rollway_service.local_setup import tiny_policy
from rollway_workers.engines.launch import Launcher
from rollway_workers.engines.sglang_flags import LaunchOptions
from tests.servers import free_port

RUNNING_REQUESTS, CONTEXT_LENGTH = 64, 2048


def model_for_sglang(folder: Path) -> Path:
    """A copy of the tiny policy that may see 2,048 tokens."""
    shutil.copytree(tiny_policy(), folder)
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = CONTEXT_LENGTH
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def trained(model: Path, folder: Path, seed: int) -> Path:
    """Another version of the model's weights: all a little off."""
    shutil.copytree(model, folder)
    rng = np.random.default_rng(seed)
    weights = load_file(folder / "model.safetensors")
    moved = {
        name: (value.astype(np.float32) * (1 + 0.05 * rng.standard_normal(value.shape))).astype(value.dtype)
        for name, value in weights.items()
    }
    save_file(moved, folder / "model.safetensors", {"format": "pt"})
    return folder


@dataclass
class SGLangServer:
    """A running server."""

    url: str
    model: Path

    def get(self, path: str) -> Any:
        answer = httpx.get(self.url + path, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=120)

    def busy(self) -> int:
        """Requests that run or wait in the server."""
        loads = self.get("/v1/loads")["loads"]
        return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads)


def sglang_python() -> str:
    """The interpreter that has SGLang: ROLLWAY_SGLANG_PYTHON, else what `make sglang` made."""
    made = Path(__file__).parents[1] / ".venv-sglang" / "bin" / "python"
    return os.environ.get("ROLLWAY_SGLANG_PYTHON") or str(made)


def require_sglang() -> None:
    python = sglang_python()
    if not Path(python).is_file():
        raise RuntimeError(f"SGLang is not installed ({python} is missing): run `make sglang`")


@contextlib.contextmanager
def running_sglang(model: Path, folder: Path) -> Iterator[SGLangServer]:
    require_sglang()
    options = LaunchOptions(
        model,
        free_port(),
        stretch_tokens=64,
        context_length=CONTEXT_LENGTH,
        max_running_requests=RUNNING_REQUESTS,
        is_deterministic=True,
        python=sglang_python(),
    )
    launcher = Launcher(options, folder / "sglang.log", max_failed_starts=1, start_within_s=240)
    # Fixtures of a session outlive the loops of its tests.
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(launcher.start(), loop).result(300)
        yield SGLangServer(launcher.url, model)
    finally:
        asyncio.run_coroutine_threadsafe(launcher.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
