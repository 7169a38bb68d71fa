"""Duties of a worker end when they are told to, and otherwise go on."""

import asyncio

import pytest

from rollway_service.core.errors import StaleFence
from rollway_workers.duties import SessionOver, guarded, persist, wait


async def test_a_stop_that_comes_together_with_the_event_is_not_swallowed():
    """asyncio.wait_for of Python 3.11 did, and the worker never ended."""
    event = asyncio.Event()

    async def duty():
        while True:
            await wait(event, 60)
            event.clear()

    task = asyncio.create_task(duty())
    for _ in range(6):
        await asyncio.sleep(0)
    event.set()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=5)
    assert done
    assert task.cancelled()


async def test_a_duty_that_fails_is_taken_up_again_until_the_session_is_over():
    ends = [ConnectionError("away"), ValueError("odd"), StaleFence("late")]

    async def duty():
        raise ends.pop(0)

    over = await guarded(duty, "w")
    assert isinstance(over, SessionOver)
    assert str(over) == "late"
    assert not ends


async def test_a_call_is_made_until_it_works_or_nobody_wants_it():
    stop = asyncio.Event()
    answers = [ConnectionError("away"), "here"]

    async def call():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await persist(call, stop, "w") == "here"
    stop.set()
    assert await persist(call, stop, "w") is None
    with pytest.raises(StaleFence):
        await persist(_raise_stale, asyncio.Event(), "w")


async def _raise_stale():
    raise StaleFence
