"""The embedded engine: transformers' continuous batching in this process. Runs on a laptop's CPU."""

from rollway_workers.engines.embedded.engine import EmbeddedEngine, EmbeddedSettings

__all__ = ["EmbeddedEngine", "EmbeddedSettings"]
