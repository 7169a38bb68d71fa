"""Any order of leases, acknowledgements, returns, expiries and rewinds: each group is in one place, for each consumer.

Invariant (iv): each accepted rollout is delivered once per lease and acknowledgement. The model beside the store is a
dict; after every step the two must agree, and at the end what was not consumed is delivered, in order, once.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from rollway.types import BatchConsumed, BatchLease, BatchReturn, CheckpointMark, Rewind
from rollway_service.core.errors import StaleFence
from rollway_service.operations import claims, consumption, leases, steward
from tests.builders import a_finished
from tests.contract.conftest import open_bench

CONSUMERS = ("a", "b")
Consumer = st.sampled_from(CONSUMERS)


@pytest.fixture
def machine(migrated_sqlite):
    class Machine(DeliveryMachine):
        template = migrated_sqlite

    return Machine


def test_each_group_is_delivered_once_whatever_trainers_do(machine):
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=checks),
    )


class DeliveryMachine(RuleBasedStateMachine):
    template: Path

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp())
        shutil.copy(self.template, self.folder / "rollway.db")
        self.ready = []
        self.state = {consumer: {} for consumer in CONSUMERS}
        self.batches = {}
        self.step = 0

    def do(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    @initialize()
    def open(self):
        self.bench = self.do(open_bench(f"sqlite:///{self.folder / 'rollway.db'}", self.folder))
        self.session = self.do(self.bench.session())
        self.make_ready(2)

    def teardown(self):
        try:
            self.deliver_the_rest()
        finally:
            self.do(self.bench.context.database.dispose())
            self.loop.close()
            shutil.rmtree(self.folder)

    async def _make_ready(self, groups):
        await self.bench.submit(groups, group_size=1)
        for item in (await claims.claim(self.bench.context, self.session, limit=groups, active_version=0)).items:
            await claims.finish(self.bench.context, self.session, [a_finished(item)])
            self.ready.append(item.group_id)

    @rule(groups=st.integers(1, 3))
    def make_ready(self, groups):
        self.do(self._make_ready(groups))

    @rule(consumer=Consumer, groups=st.integers(1, 3))
    def lease(self, consumer, groups):
        offered = [group for group in self.ready if self.state[consumer].get(group, ("offered",))[0] == "offered"]
        batch = self.take(consumer, groups)
        taken = [group.group_id for group in batch.header.groups]
        assert taken == offered[:groups]
        if taken:
            self.batches[batch.header.batch_id] = (consumer, taken)
            self.state[consumer].update(dict.fromkeys(taken, ("leased", batch.header.batch_id)))

    def take(self, consumer, groups):
        request = BatchLease(groups=groups, consumer_group=consumer, allow_partial=True)
        return self.do(leases.lease_batch(self.bench.context, self.bench.caller, self.bench.run.id, request))

    def held(self, batch_id):
        consumer, groups = self.batches[batch_id]
        return consumer, [group for group in groups if self.state[consumer][group] == ("leased", batch_id)]

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), is_partial=st.booleans())
    def consume(self, data, is_partial):
        batch_id = data.draw(st.sampled_from(sorted(self.batches)))
        consumer, held = self.held(batch_id)
        request = BatchConsumed(step=self.step, group_ids=held[:1] if is_partial and held else None)
        call = consumption.consume_batch(self.bench.context, self.bench.caller, batch_id, request)
        if not held:
            with pytest.raises(StaleFence):
                self.do(call)
            return
        self.do(call)
        for group in request.group_ids or held:
            self.state[consumer][group] = ("consumed", self.step)
        self.step += 1

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), way=st.sampled_from(["return", "expire"]))
    def offer_again(self, data, way):
        batch_id = data.draw(st.sampled_from(sorted(self.batches)))
        consumer, held = self.held(batch_id)
        if not held:
            return
        if way == "return":
            call = consumption.return_batch(self.bench.context, self.bench.caller, batch_id, BatchReturn())
        else:
            self.do(self.bench.sql("UPDATE batches SET expires_at_s = 1 WHERE id = :id", id=batch_id))
            call = steward.offer_expired_batches(self.bench.context)
        self.do(call)
        self.state[consumer].update(dict.fromkeys(held, ("offered",)))

    @rule(consumer=Consumer, data=st.data())
    def rewind(self, consumer, data):
        if not self.state[consumer]:
            return
        used = (value for state, *value in self.state[consumer].values() if state in {"consumed", "checkpointed"})
        step = data.draw(st.sampled_from([*sorted(step for (step,) in used), self.step, None]))
        request = Rewind(step=step, consumer_group=consumer)
        self.do(consumption.rewind(self.bench.context, self.bench.caller, self.bench.run.id, request))
        for group, (state, *value) in self.state[consumer].items():
            if state == "leased" or (state in {"consumed", "checkpointed"} and (step is None or value[0] > step)):
                self.state[consumer][group] = ("offered",)

    @rule(consumer=Consumer)
    def checkpointed(self, consumer):
        if not self.state[consumer]:
            return
        request = CheckpointMark(step=self.step, consumer_group=consumer)
        self.do(consumption.mark_checkpointed(self.bench.context, self.bench.caller, self.bench.run.id, request))
        for group, (state, *value) in self.state[consumer].items():
            if state == "consumed":
                self.state[consumer][group] = ("checkpointed", *value)

    async def _stored(self):
        async with self.bench.context.database.snapshot() as transaction:
            rows = await transaction.connection.execute(
                text(
                    "SELECT c.name, d.group_id, d.state, d.batch_id, d.step FROM deliveries d"
                    " JOIN consumer_groups c ON c.id = d.consumer_group_id"
                )
            )
            return rows.all()

    @invariant()
    def the_store_agrees_with_the_model(self):
        stored = {}
        for consumer, group, state, batch_id, step in self.do(self._stored()):
            assert (consumer, group) not in stored
            detail = {"offered": (), "leased": (batch_id,)}.get(state, (step,))
            stored[consumer, group] = (state, *detail)
        known = {name for name, _ in stored}
        expected = {
            (consumer, group): self.state[consumer].get(group, ("offered",))
            for consumer in known
            for group in self.ready
        }
        assert stored == expected

    def deliver_the_rest(self):
        for consumer in CONSUMERS:
            for batch_id in [b for b, (owner, _) in self.batches.items() if owner == consumer]:
                if self.held(batch_id)[1]:
                    self.do(consumption.return_batch(self.bench.context, self.bench.caller, batch_id, BatchReturn()))
            rest = [
                group
                for group in self.ready
                if self.state[consumer].get(group, ("offered",))[0] in {"offered", "leased"}
            ]
            last = self.take(consumer, len(self.ready))
            assert [group.group_id for group in last.header.groups] == rest
