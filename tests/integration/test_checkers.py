"""Checkers that are other people's code: whatever they do is a value or a reason, and never a score of 0."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from rollway.types import MathReward, PythonReward
from rollway_workers.rewards.scorer import Scorer
from tests.stack import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

_HERE = "tests.reward_functions"
NAMES = ("as_told", "raises", "eats_memory", "recurses", "hangs_with_a_child")
FUNCTIONS = ",".join(f"{name}={_HERE}:{name}" for name in NAMES)
ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
HANGS = r"\boxed{9^{9^{9^{9}}} - 1}"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scorer():
    found = Scorer.from_settings(1, FUNCTIONS)
    await found.warm()
    yield found
    await found.close()


async def score(scorer, function, reference=None, timeout_s=PATIENCE_S, **arguments):
    spec = PythonReward(kind="python", function=function, arguments=arguments, timeout_s=timeout_s)
    (found,) = await scorer.score([spec], "an answer", reference, {})
    assert (found.value is None) == (found.failure is not None)
    return found


@pytest.mark.parametrize(("give", "value"), [("yes", 1.0), ("whole", 2.0)])
async def test_what_is_a_number_is_a_value(scorer, give, value):
    assert (await score(scorer, "as_told", give=give)).value == value


@pytest.mark.parametrize(
    ("give", "words"),
    [
        ("text", "returned str"),
        ("bytes", "returned bytes"),
        ("nothing", "returned NoneType"),
        ("list", "returned list"),
        ("complex", "returned complex"),
        ("nan", "returned nan"),
        ("infinity", "returned inf"),
        ("huge", "too large"),
        ("beyond", "rewards are between -1e+09 and 1e+09"),
    ],
)
async def test_what_is_no_finite_number_is_a_failure_that_says_so(scorer, give, words):
    failure = (await score(scorer, "as_told", give=give)).failure
    assert failure.kind == "checker"
    assert words in failure.detail


@pytest.mark.parametrize(
    ("function", "arguments", "kind", "words"),
    [
        ("raises", {"what": "error"}, "checker", "ValueError: no such thing"),
        ("raises", {"what": "long"}, "checker", "RuntimeError: xxx"),
        ("raises", {"what": "odd text"}, "checker", "RuntimeError: a"),
        ("raises", {"what": "exit"}, "checker", "SystemExit: 3"),
        ("raises", {"what": "interrupt"}, "checker", "KeyboardInterrupt"),
        ("raises", {}, "checker", "TypeError"),
        ("eats_memory", {}, "checker", "more than 4 GiB"),
        ("recurses", {}, "checker", "RecursionError"),
    ],
)
async def test_a_checker_that_breaks_gives_a_reason_and_the_next_one_its_value(
    scorer, function, arguments, kind, words
):
    failure = (await score(scorer, function, **arguments)).failure
    assert failure.kind == kind
    assert words in failure.detail
    assert len(failure.detail) <= 2000
    json.dumps(failure.model_dump(), ensure_ascii=False).encode()
    assert (await score(scorer, "as_told", give="yes")).value == 1.0


async def test_a_checker_that_is_killed_takes_its_children_along(scorer, tmp_path):
    pid_file = tmp_path / "pid"
    hung = asyncio.create_task(score(scorer, "hangs_with_a_child", timeout_s=8.0, pid_file=str(pid_file)))
    pid = int(await until(lambda: pid_file.is_file() and pid_file.read_text()))
    assert psutil.pid_exists(pid)
    assert (await hung).failure.kind == "timeout"
    await until(lambda: not is_at_work(pid))


def is_at_work(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_scorer_works_in_any_thread(scorer):
    """Case B35: libraries' own time limits are alarms, which the main thread alone may set."""
    found = []

    async def in_a_loop_of_its_own():
        other = Scorer.from_settings(1, "")
        try:
            found.extend(await other.score([MathReward(kind="math", timeout_s=PATIENCE_S)], r"\boxed{1/3}", "1/3", {}))
        finally:
            await other.close()

    thread = threading.Thread(target=lambda: asyncio.run(in_a_loop_of_its_own()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert [(reward.value, reward.failure) for reward in found] == [(1.0, None)]


@pytest.mark.asyncio(loop_scope="function")
async def test_closing_while_checks_hang_and_processes_start_leaves_none():
    scorer = Scorer.from_settings(2, "")
    before = {process.pid for process in checkers_of_this_process()}
    spec = MathReward(kind="math", timeout_s=PATIENCE_S)
    hung = [asyncio.create_task(scorer.score([spec], HANGS, "1/3", {})) for _ in range(5)]
    await until(lambda: len(scorer._checkers._all) >= 2 and scorer._checkers._starting)
    for task in hung:
        task.cancel()
    await scorer.close()
    await asyncio.gather(*hung, return_exceptions=True)
    await until(lambda: {process.pid for process in checkers_of_this_process()} <= before)


def checkers_of_this_process():
    """Processes below the fork server, which is the only other one that this process has below it for long."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            below = process.parent()
            if below is not None and below.pid != psutil.Process().pid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


SLOW = """
import asyncio
from rollway.types import PythonReward
from rollway_workers.rewards.scorer import Scorer

async def main():
    scorer = Scorer.from_settings(1, "as_told=tests.reward_functions:as_told")
    spec = PythonReward(kind="python", function="as_told", arguments={"give": "yes"}, timeout_s=1.0)
    try:
        (found,) = await scorer.score([spec], "", None, {})
        print(found.value, found.failure)
    finally:
        await scorer.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_the_time_that_a_functions_module_takes_to_load_is_no_part_of_its_checks(tmp_path):
    """Else no answer would ever be scored where loading takes longer than a check may."""
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    done = await asyncio.to_thread(run_script, script, ROLLWAY_TEST_SLOW_IMPORT_S="3")
    assert done.stdout.split() == ["1.0", "None"], done.stderr


def run_script(script, **environment):
    command = [sys.executable, str(script)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)
