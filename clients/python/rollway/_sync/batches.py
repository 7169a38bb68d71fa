"""Leasing batches and saying what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rollway._sync.transport import Transport, new_key
from rollway._sync.waiting import Repeater
from rollway.arrays import TreeArrays
from rollway.batch import Batch
from rollway.container import ContainerError
from rollway.errors import BatchCorrupt, Conflict, RollwayError
from rollway.framing import read_frame
from rollway.types import BatchConsumed, BatchExtend, BatchHeader, BatchLease, BatchReturn, BatchState

if TYPE_CHECKING:
    from typing import Self

_LONGEST_WAIT_S = 20.0
_LEASE_TRIES = 3


class LeasedBatch(Batch):
    """A batch that is ours until its lease runs out: say `consumed` or `give_back`."""

    def __init__(self, transport: Transport, header: BatchHeader, trees: Sequence[TreeArrays]) -> None:
        super().__init__(header, trees)
        self._transport = transport
        self.is_settled = header.batch_id is None

    def consumed(self, step: int) -> BatchState:
        """The trainer used the batch in this step. Safe to say again."""
        return self._settle("consumed", BatchConsumed(step=step))

    def give_back(self) -> BatchState:
        """Offer the batch to others at once, unused."""
        return self._settle("return", BatchReturn())

    def extend(self, lease_s: float = 600.0) -> BatchState:
        """Keep the batch for so many seconds more."""
        return self._tell("extend", BatchExtend(lease_s=lease_s))

    def _settle(self, verb: str, body: BatchConsumed | BatchReturn) -> BatchState:
        state = self._tell(verb, body)
        self.is_settled = True
        return state

    def _tell(self, verb: str, body: BatchConsumed | BatchReturn | BatchExtend) -> BatchState:
        if self.id is None:
            why = "the data has ended" if self.header.end_of_data else f"waiting for {self.header.waiting_for}"
            raise RollwayError(f"this batch is empty ({why}): there is nothing to acknowledge, extend or give back")
        return self._transport.call(BatchState, "POST", f"/v1/batches/{self.id}/{verb}", body=body)


def lease(transport: Transport, run_id: str, request: BatchLease) -> LeasedBatch:
    """Lease one batch. Sent again after a fault, it is the same batch, never a second one.

    Raises:
        BatchCorrupt: it arrived cut short or altered, three times.
    """
    if request.request_id is None:
        request = request.model_copy(update={"request_id": new_key()})
    for attempt in range(1, _LEASE_TRIES + 1):
        data = transport.frame(f"/v1/runs/{run_id}/batches", request, timeout_s=request.wait_s + 60.0)
        try:
            header, trees = read_frame(data)
        except ContainerError as error:
            if attempt == _LEASE_TRIES:
                raise BatchCorrupt(str(error)) from error
        else:
            return LeasedBatch(transport, header, trees)
    raise AssertionError("unreachable")


class Batches:
    """Batches of a run, one after the other, until the end of the data.

    A batch that the loop's body did not settle is acknowledged as consumed when the body ends, and given back when the
    loop is left by `break` or an error. While the body works, the lease is extended in the background.
    """

    def __init__(
        self, transport: Transport, run_id: str, request: BatchLease, *, first_step: int, wait_s: float | None
    ) -> None:
        self._transport = transport
        self._run_id = run_id
        self._request = request
        self._step = first_step
        self._wait_s = wait_s
        self._open: LeasedBatch | None = None
        self._keeper: Repeater | None = None
        self.last_header: BatchHeader | None = None

    def __iter__(self) -> Iterator[LeasedBatch]:
        return self._iterate()

    def _iterate(self) -> Iterator[LeasedBatch]:
        try:
            while (batch := self._next()) is not None:
                self._keep(batch)
                yield batch
                self._release()
                if not batch.is_settled:
                    batch.consumed(self._step)
                self._open = None
                self._step += 1
        finally:
            self._leave()

    def _next(self) -> LeasedBatch | None:
        """The next batch; None at the end of the data or when none came in time."""
        waited_s = 0.0
        while True:
            wait_s = _LONGEST_WAIT_S if self._wait_s is None else min(_LONGEST_WAIT_S, self._wait_s - waited_s)
            request = self._request.model_copy(update={"wait_s": max(0.0, wait_s), "request_id": new_key()})
            batch = lease(self._transport, self._run_id, request)
            self.last_header = batch.header
            if batch.groups:
                self._open = batch
                return batch
            waited_s += wait_s
            if batch.header.end_of_data or (self._wait_s is not None and waited_s >= self._wait_s):
                return None

    def _keep(self, batch: LeasedBatch) -> None:
        lease_s = self._request.lease_s

        def extend() -> Any:
            return batch.extend(lease_s)

        self._keeper = Repeater(extend, lease_s / 3)
        self._keeper.start()

    def _release(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None

    def _leave(self) -> None:
        self._release()
        batch, self._open = self._open, None
        if batch is not None and not batch.is_settled:
            try:
                batch.give_back()
            except Conflict:
                # The lease ran out meanwhile: it is on offer already.
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._leave()
