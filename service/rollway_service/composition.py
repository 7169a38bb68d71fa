"""Putting the parts of a service together: adapters are chosen here and nowhere else."""

from __future__ import annotations

from rollway_service.config import Settings
from rollway_service.dispatch.local import LocalWakeUps
from rollway_service.dispatch.ports import WakeUps
from rollway_service.operations.context import Context
from rollway_service.store.arrays_inline import InlineArrays
from rollway_service.store.database import Database
from rollway_service.tokenization.huggingface import HuggingFaceTokenizers


def build_context(settings: Settings) -> Context:
    """The parts that operations need, on the database that the settings name."""
    return Context(
        database=Database(settings.url, pool_size=settings.database_pool_size),
        arrays=InlineArrays(),
        wakeups=build_wakeups(settings),
        tokenizers=HuggingFaceTokenizers(),
        settings=settings,
    )


def build_wakeups(settings: Settings) -> WakeUps:
    """Wake-ups over the broker that the settings name, else inside this process alone."""
    if not settings.broker_url:
        return LocalWakeUps()
    # Celery is imported by those who have a broker.
    from rollway_service.dispatch.celery_wakeups import CeleryWakeUps  # noqa: PLC0415

    return CeleryWakeUps(settings.broker_url, settings.broker_namespace)
