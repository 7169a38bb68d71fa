"""The demo as people start it: it ends well, draws its picture, and leaves no process behind however it ends."""

import json
import signal
import socket
import subprocess
import sys
import time
import uuid

import psutil
import pytest

from tests.processes import started

# Where tests run in the background, SIGINT is ignored, and a child inherits that; a person's terminal does not.
AS_IN_A_TERMINAL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
DEMO = [sys.executable, "-c", f"{AS_IN_A_TERMINAL}; from rollway.cli import main; main()", "demo"]
PNG = b"\x89PNG\r\n\x1a\n"
MARK = "ROLLWAY_TEST_MARK"


def alive(mark):
    """Processes started with this mark in their environment that still run: children of children too."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def wait_until(condition, within_s=90.0):
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not so within {within_s} s"
        time.sleep(0.1)
    return value


def surroundings(mark, folder):
    return {MARK: mark, "HOME": str(folder), "TMPDIR": str(folder)}


@pytest.fixture
def mark():
    found = uuid.uuid4().hex
    yield found
    for process in alive(found):
        process.kill()


def test_the_demo_trains_draws_and_leaves_nothing_running(tmp_path, mark):
    out = tmp_path / "out"
    command = [*DEMO, "--steps", "1", "--held-out", "5", "--json", "--out", str(out)]
    with started(command, tmp_path / "log", surroundings(mark, tmp_path)) as process:
        wait_until(lambda: len(alive(mark)) > 1 or process.popen.poll() is not None)
        assert process.popen.wait(110) == 0, process.log.read_text()[-3000:]
    assert (out / "reward.png").read_bytes().startswith(PNG)
    assert [path.name for path in out.iterdir()] == ["reward.png"]
    report = json.loads(process.log.read_text().splitlines()[-1])
    assert 0.0 <= report["before"] <= 1.0
    assert 0.0 <= report["after"] <= 1.0
    assert report["plot"] == str(out / "reward.png")
    wait_until(lambda: not alive(mark))


def interrupt(process, every_s=30.0, within_s=150.0):
    """Ctrl-C as people press it: again when nothing has happened for a while. Returns the exit code."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        process.signal(signal.SIGINT)
        try:
            return process.popen.wait(every_s)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"it did not stop within {within_s} s")


@pytest.mark.timeout(400)
def test_demos_that_are_stopped_or_killed_take_their_services_along(tmp_path, mark):
    """Both at once, since starting them is what takes long. A service is at work when its checkers' fork server is."""
    environment = surroundings(mark, tmp_path)
    command = [*DEMO, "--out", str(tmp_path / "out")]
    with (
        started(command, tmp_path / "stopped.log", environment) as stopped,
        started(command, tmp_path / "killed.log", environment) as killed,
    ):
        wait_until(
            lambda: all(len(psutil.Process(d.popen.pid).children(recursive=True)) > 1 for d in (stopped, killed))
        )
        assert interrupt(stopped) != 0
        killed.kill()
    wait_until(lambda: not alive(mark))
    assert "Traceback" not in stopped.log.read_text()
    assert not (tmp_path / "out" / "reward.png").exists()


SERVICE_ON = """
import pathlib, sys
from rollway.demo.run import local_service
from rollway.errors import RollwayError
try:
    with local_service(pathlib.Path(sys.argv[1]), port=int(sys.argv[2])):
        sys.exit("it started")
except RollwayError as error:
    print(error)
"""


def test_a_busy_port_is_told_and_leaves_nothing_running(tmp_path, mark):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-c", SERVICE_ON, str(tmp_path), str(port)]
        with started(command, tmp_path / "log", surroundings(mark, tmp_path)) as process:
            assert process.popen.wait(90) == 0, process.log.read_text()[-3000:]
    assert f"cannot listen on 127.0.0.1:{port}" in process.log.read_text()
    assert "Traceback" not in process.log.read_text()
    wait_until(lambda: not alive(mark))
