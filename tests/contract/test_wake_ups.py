"""What every carrier of wake-ups must do: inside one process, and by Celery over a real Redis."""

import asyncio
import contextlib
import sys
import time

import pytest

from rollway_service.dispatch.celery_wakeups import CeleryWakeUps
from rollway_service.dispatch.local import LocalWakeUps
from tests.stack import until


@contextlib.asynccontextmanager
async def celery_pair(redis):
    """Two service processes' wake-ups, as far as the broker can tell."""
    pair = CeleryWakeUps(redis.url, "test"), CeleryWakeUps(redis.url, "test")
    for each in pair:
        await each.open()
    try:
        await until(lambda: all(each.is_connected for each in pair))
        yield pair
    finally:
        await asyncio.gather(*(each.close() for each in pair))


@pytest.fixture(params=["local", "celery"])
async def pair(request):
    """(who wakes, who waits): one and the same inside a process."""
    if request.param == "local":
        local = LocalWakeUps()
        yield local, local
        return
    async with celery_pair(request.getfixturevalue("redis")) as found:
        yield found


async def test_a_wake_up_after_the_ticket_ends_the_wait(pair):
    waker, waiter = pair
    ticket = waiter.ticket("run:1")
    waiting = asyncio.create_task(waiter.wait("run:1", ticket, 20))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    waker.wake("run:1")
    assert await waiting is True


async def test_a_wake_up_between_ticket_and_wait_is_not_missed(pair):
    waker, waiter = pair
    ticket = waiter.ticket("pool:1")
    waker.wake("pool:1")
    await until(lambda: waiter.ticket("pool:1") != ticket)
    assert await waiter.wait("pool:1", ticket, 20) is True


async def test_other_topics_and_the_time_limit_wake_nobody_up(pair):
    waker, waiter = pair
    ticket = waiter.ticket("run:1")
    waker.wake("run:2")
    waker.wake("job:1")
    assert await waiter.wait("run:1", ticket, 0.2) is False
    assert await waiter.wait("run:1", ticket, 0) is False


async def test_all_who_wait_wake_up(pair):
    waker, waiter = pair
    tickets = [(topic, waiter.ticket(topic)) for topic in ["run:1"] * 5 + ["job:7"] * 5]
    waits = [asyncio.create_task(waiter.wait(topic, ticket, 20)) for topic, ticket in tickets]
    await asyncio.sleep(0.02)
    waker.wake("run:1")
    waker.wake("job:7")
    assert all(await asyncio.gather(*waits))


async def test_a_cancelled_wait_leaves_the_others_waiting(pair):
    waker, waiter = pair
    ticket = waiter.ticket("run:1")
    first, second = (asyncio.create_task(waiter.wait("run:1", ticket, 20)) for _ in range(2))
    await asyncio.sleep(0.02)
    first.cancel()
    waker.wake("run:1")
    assert await second is True


async def test_topics_without_end_do_not_fill_the_memory():
    wakeups = LocalWakeUps()
    old = wakeups.ticket("run:old")
    wakeups.wake("run:old")
    for number in range(25_000):
        wakeups.wake(f"run:{number}")
    assert len(wakeups._numbers) <= 10_000
    # Forgotten topics end waits too early, never too late.
    assert await wakeups.wait("run:old", old, 0) is True
    assert await wakeups.wait("run:old", wakeups.ticket("run:old"), 0) is False


async def test_a_burst_is_one_message(redis):
    async with celery_pair(redis) as (waker, waiter):
        heard = []
        waiter._local.wake = heard.append
        for _ in range(1000):
            waker.wake("run:1")
        await until(lambda: heard)
        await asyncio.sleep(0.2)
        assert len(heard) <= 2
        assert waker.messages_sent == len(heard)


async def test_a_topic_that_is_woken_all_the_time_is_sent_ten_times_a_second_and_its_last_news_too(redis):
    async with celery_pair(redis) as (waker, waiter):
        started_s = time.monotonic()
        while time.monotonic() - started_s < 1.0:
            waker.wake("run:1")
            await asyncio.sleep(0.002)
        await until(lambda: not waker._dirty)
        # One for each tenth of a second, however slow the machine is.
        assert waker.messages_sent <= (time.monotonic() - started_s) * 10 + 2
        ticket = waiter.ticket("run:1")
        waker.wake("run:1")
        assert await waiter.wait("run:1", ticket, 20) is True


async def test_what_a_process_sends_does_not_wake_it_a_second_time(redis):
    async with celery_pair(redis) as (waker, waiter):
        waker.wake("run:1")
        ticket = waker.ticket("run:1")
        await until(lambda: waiter.ticket("run:1"))
        assert await waker.wait("run:1", ticket, 0.3) is False


async def test_another_process_is_woken(redis):
    async with celery_pair(redis) as (_, waiter):
        script = (
            "import asyncio\n"
            "from rollway_service.dispatch.celery_wakeups import CeleryWakeUps\n"
            "async def main():\n"
            f"    wakeups = CeleryWakeUps({redis.url!r}, 'test')\n"
            "    await wakeups.open()\n"
            "    wakeups.wake('run:far')\n"
            "    while not wakeups.messages_sent:\n"
            "        await asyncio.sleep(0.01)\n"
            "    await wakeups.close()\n"
            "asyncio.run(main())\n"
        )
        ticket = waiter.ticket("run:far")
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
        assert await waiter.wait("run:far", ticket, 30) is True
        assert await other.wait() == 0


async def test_namespaces_on_one_redis_do_not_hear_each_other(redis):
    async with celery_pair(redis) as (waker, waiter):
        stranger = CeleryWakeUps(redis.url, "other")
        await stranger.open()
        await until(lambda: stranger.is_connected)
        ticket, own = stranger.ticket("run:1"), waiter.ticket("run:1")
        waker.wake("run:1")
        assert await waiter.wait("run:1", own, 20) is True
        assert await stranger.wait("run:1", ticket, 0.2) is False
        await stranger.close()


async def test_a_broker_that_dies_is_missed_by_nobody_and_taken_up_again(redis):
    async with celery_pair(redis) as (waker, waiter):
        redis.kill()
        ticket = waker.ticket("run:1")
        waker.wake("run:1")
        # This process needs no broker for itself.
        assert await waker.wait("run:1", ticket, 0) is True
        await until(lambda: not waiter.is_connected, within_s=30)
        redis.start()
        await until(lambda: waiter.is_connected and waker.is_connected, within_s=60)
        ticket = waiter.ticket("run:2")

        async def heard():
            waker.wake("run:2")
            return await waiter.wait("run:2", ticket, 0.2)

        await until(heard, within_s=30)


async def test_a_broker_that_hangs_blocks_neither_wake_nor_the_loop(redis):
    async with celery_pair(redis) as (waker, _):
        redis.hang()
        slowest_s = 0.0
        for number in range(200):
            started_s = time.perf_counter()
            waker.wake(f"run:{number}")
            await asyncio.sleep(0)
            slowest_s = max(slowest_s, time.perf_counter() - started_s)
            await asyncio.sleep(0.002)
        redis.unhang()
        # The broker's own time limit is 5 s: whoever waited for it would be beyond this.
        assert slowest_s < 4.0


async def test_a_flushed_broker_goes_on(redis):
    async with celery_pair(redis) as (waker, waiter):
        redis.flush()
        ticket = waiter.ticket("run:1")

        async def heard():
            waker.wake("run:1")
            return await waiter.wait("run:1", ticket, 0.2)

        await until(heard, within_s=30)


async def test_without_a_broker_at_the_start_processes_work_alone(redis):
    redis.kill()
    wakeups = CeleryWakeUps(redis.url, "test")
    await wakeups.open()
    ticket = wakeups.ticket("run:1")
    wakeups.wake("run:1")
    assert await wakeups.wait("run:1", ticket, 5) is True
    redis.start()
    await until(lambda: wakeups.is_connected, within_s=60)
    await wakeups.close()


async def test_nonsense_on_the_exchange_breaks_nothing(redis):
    """Late, doubled and foreign messages: whoever can reach the broker can send them."""
    from rollway_service.dispatch.broker import NEWS_TASK, SERVICE_NEWS, fanout, make_celery, send

    async with celery_pair(redis) as (waker, waiter):
        app = make_celery(redis.url, "test")
        for arguments in [(), ("run:1",), (1, 2, 3), ({"a": [None]}, None), ("run:9", "me"), ("run:9", "me")]:
            await asyncio.to_thread(send, app, NEWS_TASK, arguments, to=fanout(SERVICE_NEWS))
        await asyncio.to_thread(send, app, "no.such.task", (), to=fanout(SERVICE_NEWS))
        with redis.client() as client:
            client.publish("test:/0.news.service/all", b"\x00 not a message")
        ticket = waiter.ticket("run:2")

        async def heard():
            waker.wake("run:2")
            return await waiter.wait("run:2", ticket, 0.2)

        await until(heard, within_s=30)
