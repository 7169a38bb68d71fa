"""The scripted engine as a process: seeded answers, for demonstrations, tests and benches without a model."""

from __future__ import annotations

import argparse
import asyncio
import sys

from rollway_workers.engines.scripted.script import seeded_responder
from rollway_workers.engines.scripted.server import ScriptedServer


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one, printed on the first line of stdout")
    parser.add_argument("--vocab-size", type=int, default=304)
    parser.add_argument("--context-length", type=int, default=4096)
    parser.add_argument("--eos-token-id", type=int, help="ends answers (default: they run to their cap)")
    parser.add_argument("--mean-tokens", type=int, default=32, help="mean length until the end token")
    parser.add_argument("--chunk-tokens", type=int, default=64)
    parser.add_argument("--chunk-delay-s", type=float, default=0.0)
    return parser.parse_args()


async def serve(arguments: argparse.Namespace) -> None:
    server = ScriptedServer(
        seeded_responder(
            vocab_size=arguments.vocab_size,
            eos_token_id=arguments.eos_token_id,
            mean_tokens=arguments.mean_tokens,
            chunk_tokens=arguments.chunk_tokens,
            chunk_delay_s=arguments.chunk_delay_s,
        ),
        vocab_size=arguments.vocab_size,
        context_length=arguments.context_length,
    )
    await server.start(arguments.port)
    sys.stdout.write(f"{server.url}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(parse_arguments()))
