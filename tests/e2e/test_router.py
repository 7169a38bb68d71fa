"""Two engines behind a router that goes by the routing key: the members of a group share a server, and with it a prefix."""

from aiohttp import ClientSession, web

from rollway_workers.engines.scripted import ScriptedServer, seeded_responder
from rollway_workers.engines.scripted.server import serving
from tests.builders import token_tasks
from tests.stack import TINY_EOS, TINY_VOCAB, running_stack

RESPONDER = seeded_responder(vocab_size=TINY_VOCAB, eos_token_id=TINY_EOS, mean_tokens=12, chunk_tokens=8)


class Router:
    """Passes streams on by the hash of X-SMG-Routing-Key, and has next to no other path, as SGLang's router."""

    def __init__(self, urls):
        self.urls = urls
        self.keys = {}

    async def generate(self, request):
        key = request.headers["X-SMG-Routing-Key"]
        url = self.urls[sum(key.encode()) % len(self.urls)]
        self.keys.setdefault(key, set()).add(url)
        async with ClientSession() as session:
            async with session.post(url + "/generate", data=await request.read()) as upstream:
                answer = web.StreamResponse(status=upstream.status, headers={"Content-Type": upstream.content_type})
                await answer.prepare(request)
                async for piece in upstream.content.iter_any():
                    await answer.write(piece)
                await answer.write_eof()
                return answer

    async def model_info(self, _request):
        return web.json_response({"model_path": "scripted"})

    async def start(self):
        app = web.Application()
        app.router.add_post("/generate", self.generate)
        app.router.add_get("/get_model_info", self.model_info)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"


async def test_members_of_a_group_go_to_one_server_of_a_router(sqlite_url, tmp_path):
    first = ScriptedServer(RESPONDER, vocab_size=TINY_VOCAB, context_length=256)
    second = ScriptedServer(RESPONDER, vocab_size=TINY_VOCAB, context_length=256)
    async with serving(first), serving(second):
        router = Router([first.url, second.url])
        url = await router.start()
        async with running_stack(sqlite_url, tmp_path, with_worker=False) as stack:
            await stack.start_worker(engine=url, slots=8)
            run = await stack.client.start_run("routed", model="tiny")
            job = await run.submit(
                token_tasks(12), group_size=4, sampling={"max_new_tokens": 16, "seed": 1}, close=True
            )
            await job.wait(30)
            groups = {group.id async for group in stack.client.groups(job.id)}
            assert (await job.refresh()).progress.rollouts_completed == 48
        await router.runner.cleanup()
    assert set(router.keys) == groups
    assert all(len(urls) == 1 for urls in router.keys.values())
    assert len(first.calls) + len(second.calls) == 48
    assert first.calls
    assert second.calls
