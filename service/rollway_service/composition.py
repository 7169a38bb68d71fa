"""Putting the parts of a service together: adapters are chosen here and nowhere else."""

from __future__ import annotations

import logging
import sys

import structlog

from rollway_service.config import Settings
from rollway_service.dispatch.local import LocalWakeUps
from rollway_service.operations.context import Context
from rollway_service.store.arrays_inline import InlineArrays
from rollway_service.store.database import Database
from rollway_service.tokenization.huggingface import HuggingFaceTokenizers


def build_context(settings: Settings) -> Context:
    """The parts that operations need, on the database that the settings name."""
    return Context(
        database=Database(settings.url, pool_size=settings.database_pool_size),
        arrays=InlineArrays(),
        wakeups=LocalWakeUps(),
        tokenizers=HuggingFaceTokenizers(),
        settings=settings,
    )


def configure_logging(*, as_json: bool) -> None:
    """One line per event on stderr: JSON for machines, else readable."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
