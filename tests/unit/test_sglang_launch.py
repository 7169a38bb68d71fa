"""Flags, environment, and what the answers of /health mean."""

from pathlib import Path

import pytest

from rollway_workers.engines.launch import Health
from rollway_workers.engines.sglang_flags import SHIM, LaunchOptions, launch_command, launch_environment


def flags(on_gpu, **options):
    command = launch_command(LaunchOptions(Path("/models/m"), 30000, python="py", **options), on_gpu=on_gpu)
    assert command[:3] == ["py", "-m", "sglang.launch_server"]
    return command


@pytest.mark.parametrize("on_gpu", [True, False])
def test_streams_come_in_pieces_of_a_stretch_and_on_loopback(on_gpu):
    command = flags(on_gpu, stretch_tokens=32)
    assert command[command.index("--stream-interval") + 1] == "32"
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert "--incremental-streaming-output" in command
    assert command[flags(on_gpu, stretch_tokens=4096).index("--stream-interval") + 1] == "32"
    assert "64" in flags(on_gpu, stretch_tokens=4096)


def test_a_gpu_gets_none_of_the_stand_ins():
    command = flags(True, is_deterministic=True, context_length=8192, max_running_requests=128)
    assert "cpu" not in command
    assert "torch_native" not in command
    assert command[command.index("--context-length") + 1] == "8192"
    assert command[command.index("--max-running-requests") + 1] == "128"
    assert "--enable-deterministic-inference" in command
    environment = launch_environment(on_gpu=True)
    assert "SGLANG_USE_CPU_ENGINE" not in environment
    assert "PYTHONPATH" not in environment


def test_a_cpu_gets_the_shim(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/ours")
    environment = launch_environment(on_gpu=False)
    assert environment["PYTHONPATH"] == str(SHIM)
    assert environment["SGLANG_USE_CPU_ENGINE"] == "1"
    assert (SHIM / "sgl_kernel" / "__init__.py").is_file()
    assert (SHIM / "sgl_cpu_plugin-0.1.dist-info" / "entry_points.txt").is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--quantization", "fp8", "--kv-cache-dtype", "fp8_e4m3"),
        ("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3"),
        ("--tp", "2"),
    ],
)
def test_further_flags_come_last_so_that_they_win(arguments):
    assert flags(True, arguments=arguments)[-len(arguments) :] == list(arguments)


def test_answers_keep_a_server_alive_and_silence_does_not():
    health = Health(silent_s=60, stuck_s=300)
    health._answered_s = health._healthy_s = 0
    assert health.note(200, is_paused=False, now_s=50) is None
    assert health.note(None, is_paused=False, now_s=100) is None
    assert "not answered" in health.note(None, is_paused=False, now_s=111)


def test_a_pause_is_no_death_and_a_server_that_is_stuck_is():
    health = Health(silent_s=60, stuck_s=300)
    health._answered_s = health._healthy_s = 0
    for now_s in range(0, 2000, 20):
        assert health.note(503, is_paused=True, now_s=now_s) is None
    assert health.note(503, is_paused=False, now_s=2200) is None
    assert "nobody paused" in health.note(503, is_paused=False, now_s=2400)
    health = Health(silent_s=60, stuck_s=300)
    health._answered_s = health._healthy_s = 0
    assert health.note(503, is_paused=False, now_s=250) is None
    assert health.note(200, is_paused=False, now_s=290) is None
    assert health.note(503, is_paused=False, now_s=500) is None
