"""A Celery worker in a thread beside an asyncio loop: it hears messages and remote control, and does no work itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import structlog
from celery import Celery, bootsteps
from celery.exceptions import WorkerShutdown
from celery.worker import WorkController
from celery.worker.control import control_command, inspect_command
from kombu.entity import Queue

Handler = Callable[..., Any]

_STOP_WAIT_S = 3.0
_TELL_AFTER_S = 5.0

log = structlog.get_logger()


class ConsumerThread:
    """Consumes queues and answers remote control until stopped; connects again by itself when the broker was away.

    `handlers`: by task name, called in the thread with the message's arguments. `commands`: by name, for
    `celery control rollway_command`; called in the thread, and what they return is the answer. `on_connected`: called in
    the thread whenever it begins to hear.
    """

    def __init__(
        self,
        app: Celery,
        node_name: str,
        queues: Sequence[Queue],
        handlers: Mapping[str, Handler],
        commands: Mapping[str, Handler] | None = None,
        *,
        on_connected: Callable[[], None] | None = None,
    ) -> None:
        self._app = app
        self._node_name = node_name
        self._queues = list(queues)
        self.is_stopping = threading.Event()
        self.connected = threading.Event()
        self._thread: threading.Thread | None = None
        app.rollway_commands = dict(commands or {})
        app.conf.task_queues = self._queues
        for name, handler in handlers.items():
            app.task(name=name, shared=False, acks_late=False)(handler)
        self.consumers: list[Any] = []
        app.steps["consumer"].add(_watch(self, on_connected))

    @property
    def is_connected(self) -> bool:
        """Whether messages that are sent now are heard."""
        return self.connected.is_set()

    def wait_connected(self, timeout_s: float) -> bool:
        return self.connected.wait(timeout_s)

    def start(self) -> None:
        """Start listening; does not wait for the broker."""
        # Celery tells of each failed attempt to connect; that the news are late is told once, below.
        for name in ("celery.worker.consumer.consumer", "celery.redirected", "kombu"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=self._run, name="rollway-broker", daemon=True)
        self._thread.start()
        teller = threading.Timer(_TELL_AFTER_S, self._tell_if_not_connected)
        teller.daemon = True
        teller.start()

    def stop(self) -> None:
        """Stop listening. A thread that hangs at a broker that does not answer is left behind: it is a daemon."""
        self.is_stopping.set()
        for consumer in list(self.consumers):
            consumer.call_soon(_end)
        if self._thread is not None:
            self._thread.join(_STOP_WAIT_S)

    def _tell_if_not_connected(self) -> None:
        if not self.connected.is_set() and not self.is_stopping.is_set():
            log.warning("broker_not_reached", node=self._node_name, meaning="news come by polling until it is")

    def _run(self) -> None:
        # Celery looks tasks up in the thread's current application.
        self._app.set_current()
        while not self.is_stopping.is_set():
            try:
                self._controller().start()
            except Exception as error:  # noqa: BLE001 - the process lives without news, only slower
                log.warning("broker_consumer_failed", node=self._node_name, error=repr(error))
            self.connected.clear()
            self.is_stopping.wait(1.0)

    def _controller(self) -> WorkController:
        return _Controller(
            app=self._app,
            hostname=self._node_name,
            pool_cls="solo",
            concurrency=1,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            send_events=False,
        )


def _end() -> None:
    raise WorkerShutdown


class _Controller(WorkController):  # type: ignore[misc]
    """Celery's worker on a plain loop: its event loop is one for all of a process, and this thread wants its own."""

    def should_use_eventloop(self) -> bool:
        return False


def _watch(thread: ConsumerThread, on_connected: Callable[[], None] | None) -> type:
    """A step of Celery's consumer that says whether it is connected, and which one it is."""

    class Watch(bootsteps.StartStopStep):  # type: ignore[misc]
        requires: ClassVar = ("celery.worker.consumer.tasks:Tasks", "celery.worker.consumer.control:Control")

        def start(self, consumer: Any) -> None:
            log.info("broker_connected", node=consumer.hostname)
            thread.consumers.append(consumer)
            thread.connected.set()
            if on_connected is not None:
                on_connected()

        def stop(self, consumer: Any) -> None:
            if thread.is_connected and not thread.is_stopping.is_set():
                log.warning("broker_lost", node=consumer.hostname, meaning="news come by polling until it is back")
            thread.connected.clear()
            thread.consumers.clear()

    return Watch


@control_command(args=[("name", str)], signature="<drain|resume|pause>", visible=True)  # type: ignore[untyped-decorator]
def rollway_command(state: Any, name: str, **_options: Any) -> dict[str, Any]:
    """Do what a Rollway process offers by this name: a worker offers drain, resume and pause."""
    commands = getattr(state.app, "rollway_commands", {})
    if name not in commands:
        return {"error": f"no command {name!r} here; there are: {', '.join(sorted(commands)) or 'none'}"}
    return {"ok": commands[name]()}


@inspect_command()  # type: ignore[untyped-decorator]
def rollway_status(state: Any, **_options: Any) -> dict[str, Any]:
    """What a Rollway process says of itself."""
    found = getattr(state.app, "rollway_commands", {}).get("status")
    return dict(found()) if found is not None else {}
