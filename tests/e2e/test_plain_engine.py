"""An engine that has /generate and little else: a proxy, an older build, somebody's stand-in."""

import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.builders import token_tasks, weights_folder
from tests.stack import running_stack, until

IDS, LOGPROBS = [20, 21, 22, 23], [-0.1, -0.2, -0.3, -0.4]


def an_answer(count):
    return {
        "text": "",
        "output_ids": IDS[:count],
        "meta_info": {
            "finish_reason": {"type": "length", "length": 4} if count == 4 else None,
            "output_token_logprobs": [[value, i, None] for value, i in zip(LOGPROBS, IDS, strict=True)][:count],
        },
    }


async def whole(_request):
    return web.json_response(an_answer(4))


async def cumulative(request):
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for count in (1, 3, 4):
        await response.write(b"data: " + json.dumps(an_answer(count)).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


@asynccontextmanager
async def plain_engine(generate, loads):
    async def load(request):
        loads.append(await request.json())
        return web.json_response({"success": True, "message": ""})

    app = web.Application()
    app.add_routes([web.post("/generate", generate), web.post("/update_weights_from_disk", load)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("generate", [whole, cumulative])
async def test_rollouts_run_on_an_engine_that_says_nothing_of_itself(sqlite_url, tmp_path, generate):
    loads = []
    async with plain_engine(generate, loads) as url, running_stack(sqlite_url, tmp_path, with_worker=False) as stack:
        await stack.start_worker(engine=url, slots=4)
        run = await stack.client.start_run("plain", model="tiny")
        await run.submit(token_tasks(2), group_size=2, sampling={"max_new_tokens": 4}, close=True)
        (batch,) = [batch async for batch in run.batches(groups=2, timeout_s=20)]
        for sample in batch.samples:
            assert sample.token_ids[4:].tolist() == IDS
            assert sample.behavior_logprobs[4:].tolist() == pytest.approx(LOGPROBS)
            assert sample.weight_versions[4:].tolist() == [0] * 4
        await run.publish(weights_folder(tmp_path), trainer_step=1)
        await until(lambda: loads)
        job = await run.submit(
            token_tasks(1), group_size=1, sampling={"max_new_tokens": 4}, version={"exact_version": 1}, close=True
        )
        (batch,) = [batch async for batch in run.batches(groups=1, job_ids=[job.id], timeout_s=20)]
        assert batch.samples[0].weight_versions[4:].tolist() == [1] * 4
