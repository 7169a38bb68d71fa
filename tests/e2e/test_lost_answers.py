"""Calls of a worker that take effect while their answer is lost: nothing is lost, doubled or left hanging."""

import asyncio
import random

import pytest

from rollway_workers.assembly import WorkerOptions, run_worker
from rollway_workers.control_direct import DirectControlPlane
from rollway_workers.control_remote import RemoteControlPlane
from rollway_workers.engines.scripted import Call, seeded_responder
from tests.builders import token_tasks
from tests.stack import TINY_VOCAB, running_stack

RESPONDER = seeded_responder(vocab_size=TINY_VOCAB, chunk_tokens=8, chunk_delay_s=0.02)
TOKENS = 120


def assert_as_undisturbed(sample, num_tokens):
    prompt = tuple(sample.token_ids[:4].tolist())
    call = Call("", prompt, {"sampling_seed": sample.header.seed, "max_new_tokens": num_tokens}, None, True, {})
    assert sample.token_ids[4:].tolist() == list(RESPONDER(call).token_ids)
    assert sample.loss_mask[4:].all()


class LossyControlPlane:
    """Does what the real one does, and then loses some answers: the caller sees a broken connection."""

    def __init__(self, inner, *, share, seed=5):
        self._inner = inner
        self._random = random.Random(seed)
        self._share = share
        self.lost = {}

    def __getattr__(self, name):
        inner = getattr(self._inner, name)
        if name not in {"claim", "checkpoint", "finish", "release", "heartbeat", "close_session"}:
            return inner

        async def call(*arguments, **options):
            answer = await inner(*arguments, **options)
            # The first of each kind always, so that each is lost at least once.
            if name in self._share and (name not in self.lost or self._random.random() < self._share[name]):
                self.lost[name] = self.lost.get(name, 0) + 1
                raise ConnectionResetError(f"the answer to {name} was lost")
            return answer

        return call


@pytest.mark.parametrize("carrier", ["direct", "remote"])
@pytest.mark.parametrize(
    "share", [{"claim": 0.5}, {"finish": 0.5, "checkpoint": 0.3}, {"claim": 0.3, "heartbeat": 0.3}]
)
async def test_answers_that_are_lost_lose_no_work(database_url, tmp_path, share, carrier):
    async with running_stack(
        database_url, tmp_path, responder=RESPONDER, with_worker=False, stretch_tokens=16
    ) as stack:
        inner = DirectControlPlane(stack.context, stack.caller.tenant_id)
        if carrier == "remote":
            inner = RemoteControlPlane(stack.rpc_url, stack.token)
        control = LossyControlPlane(inner, share=share)
        stop = asyncio.Event()
        options = WorkerOptions(pool="tiny", engine=stack.engine.url, name="lossy", slots=4)
        worker = asyncio.create_task(
            run_worker(control, stack.context.tokenizers, stack.context.settings, options, stop)
        )
        run = await stack.client.start_run("lossy", model="tiny")
        limits = {"max_attempts": 100}
        job = await run.submit(
            token_tasks(6), group_size=2, sampling={"max_new_tokens": TOKENS, "seed": 3}, limits=limits, close=True
        )
        samples = {}
        async for batch in run.batches(groups=6, timeout_s=60):
            for sample in batch.samples:
                samples[sample.header.rollout_id] = sample
        stop.set()
        await worker
        assert set(control.lost) == set(share)
        assert len(samples) == 12
        for sample in samples.values():
            assert_as_undisturbed(sample, TOKENS)
        progress = (await job.refresh()).progress
        assert (progress.rollouts_completed, progress.wasted_tokens) == (12, 0)


async def test_a_checkpoint_that_cannot_be_read_is_generated_again(database_url, tmp_path):
    """Bytes damaged in the store: the rollout is whole all the same, and says what happened; so are its neighbours."""
    slow = seeded_responder(vocab_size=TINY_VOCAB, chunk_tokens=8, chunk_delay_s=0.05)
    async with running_stack(database_url, tmp_path, responder=slow, stretch_tokens=16) as stack:
        run = await stack.client.start_run("damaged", model="tiny")
        job = await run.submit(
            token_tasks(2),
            group_size=1,
            sampling={"max_new_tokens": 120, "seed": 3},
            close=True,
        )
        await _damage_one_checkpoint(stack)
        await stack.stop_workers()
        await stack.start_worker(name="w2")
        await job.wait(60)
        samples = (await run.lease(groups=2)).samples
        assert len(samples) == 2
        findings = [finding for sample in samples for finding in sample.header.findings]
        assert sum(finding.startswith("checkpoint_unreadable:") for finding in findings) == 1
        for sample in samples:
            assert_as_undisturbed(sample, 120)


async def _damage_one_checkpoint(stack):
    from sqlalchemy import text

    while True:
        await asyncio.sleep(0.05)
        async with stack.context.database.transaction() as transaction:
            found = (
                await transaction.connection.execute(text("SELECT work_item_id FROM checkpoints LIMIT 1"))
            ).scalar()
            if found is not None:
                await transaction.connection.execute(
                    text("UPDATE checkpoints SET payload = :bad WHERE work_item_id = :id"), {"bad": b"{}", "id": found}
                )
                return found
