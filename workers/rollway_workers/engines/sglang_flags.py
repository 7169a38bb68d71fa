"""How a SGLang server is started for a worker: its flags and environment, with and without a GPU."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

SHIM = Path(__file__).parent / "sglang_cpu"
INCREMENTAL = "--incremental-streaming-output"
_CPU_TOTAL_TOKENS = 65_536
_MAX_STREAM_INTERVAL = 64


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """What to serve and how.

    context_length: tokens, None for the model's own. stretch_tokens: as many at most come in one piece of a stream.
    arguments: further flags for SGLang, after ours, so that they win. python: of the environment that has SGLang.
    """

    model_path: Path
    port: int
    stretch_tokens: int = 256
    context_length: int | None = None
    max_running_requests: int | None = None
    is_deterministic: bool = False
    random_seed: int = 7
    arguments: tuple[str, ...] = ()
    python: str = ""
    is_incremental: bool = True

    @property
    def interpreter(self) -> str:
        return self.python or os.environ.get("ROLLWAY_SGLANG_PYTHON", "") or sys.executable


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU that a process can open."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def launch_command(options: LaunchOptions, *, on_gpu: bool) -> list[str]:
    """The command line of the server."""
    interval = max(1, min(_MAX_STREAM_INTERVAL, options.stretch_tokens))
    command = [options.interpreter, "-m", "sglang.launch_server", "--model-path", str(options.model_path)]
    command += ["--host", "127.0.0.1", "--port", str(options.port), "--enable-metrics"]
    command += ["--stream-interval", str(interval)]
    if options.is_incremental:
        command.append(INCREMENTAL)
    if options.context_length is not None:
        command += ["--context-length", str(options.context_length)]
    if options.max_running_requests is not None:
        command += ["--max-running-requests", str(options.max_running_requests)]
    if options.is_deterministic:
        command += ["--enable-deterministic-inference", "--random-seed", str(options.random_seed)]
    if not on_gpu:
        command += ["--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"]
        command += ["--dtype", "float32", "--disable-cuda-graph", "--disable-overlap-schedule"]
        command += ["--max-total-tokens", str(_CPU_TOTAL_TOKENS), "--skip-server-warmup", "--sleep-on-idle"]
    return [*command, *options.arguments]


def launch_environment(*, on_gpu: bool) -> dict[str, str]:
    """The server's environment; the shim stands in for CUDA packages and is for machines without a GPU only."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}
    # Ours is for our packages, which the server's environment does not have.
    environment.pop("PYTHONPATH", None)
    if not on_gpu:
        environment |= {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(SHIM), "OMP_NUM_THREADS": "1"}
    return environment
