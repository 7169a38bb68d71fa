"""`rollway control`: tell workers on the broker to drain, pause or resume, or ask them how they are.

The same can be done with `celery control rollway_command ACTION` and `celery inspect rollway_status`, given this broker.
"""

from __future__ import annotations

import argparse
import json
import sys

from celery import Celery

from rollway_service.config import Settings
from rollway_service.dispatch.broker import make_celery

ACTIONS = ("status", "drain", "resume", "pause")
_ANSWER_S = 3.0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rollway control", description=__doc__)
    parser.add_argument(
        "action", choices=ACTIONS, help="drain: no new work, what runs is finished; pause: its engine too"
    )
    parser.add_argument("workers", nargs="*", help="names of workers (default: all that answer)")
    parser.add_argument("--broker", help="broker URL (else ROLLWAY_BROKER_URL)")
    parsed = parser.parse_args(arguments)
    settings = Settings(broker_url=parsed.broker)
    if not settings.broker_url:
        sys.stderr.write("rollway: no broker: set ROLLWAY_BROKER_URL, or --broker redis://host:6379/0\n")
        return 1
    nodes = [f"worker@{name}" for name in parsed.workers] or None
    if nodes is None and parsed.action != "status":
        sys.stderr.write(f"rollway: name the workers to {parsed.action}; `rollway control status` lists them\n")
        return 1
    app = make_celery(settings.broker_url, settings.broker_namespace)
    try:
        answers = _ask(app, parsed.action, nodes)
    except OSError as error:
        sys.stderr.write(f"rollway: the broker cannot be reached: {error}\n")
        return 1
    found = {node: answer for each in answers for node, answer in each.items() if node.startswith("worker@")}
    for node, answer in sorted(found.items()):
        sys.stdout.write(json.dumps({"worker": node.removeprefix("worker@"), **answer}) + "\n")
    missing = set(nodes or ()) - found.keys()
    if missing or not found:
        named = ", ".join(sorted(name.removeprefix("worker@") for name in missing)) or "any worker"
        sys.stderr.write(f"rollway: no answer from {named}\n")
        return 1
    return 0


def _ask(app: Celery, action: str, nodes: list[str] | None) -> list[dict[str, dict[str, object]]]:
    answers: list[dict[str, dict[str, object]]] = app.control.broadcast(
        "rollway_status" if action == "status" else "rollway_command",
        arguments={} if action == "status" else {"name": action},
        destination=nodes,
        reply=True,
        timeout=_ANSWER_S,
        limit=len(nodes) if nodes else None,
    )
    return answers


if __name__ == "__main__":
    sys.exit(main())
