"""The Celery application and the names of what passes through its broker.

Redis may lose or double any message, and be down: everything here is a hint that makes things faster. What must not be
lost is in the database.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.common import Broadcast
from kombu.entity import Exchange, Queue

NEWS_TASK = "rollway.news"
SWEEP_TASK = "rollway.sweep"
CHECK_TASK = "rollway.check"
CHECKED_TASK = "rollway.checked"
BEGUN = "begun"
"""What a reward worker says of a check before it does it."""
STEWARD_QUEUE = "steward"
REWARDS_QUEUE = "rewards"
SERVICE_NEWS = "news.service"

_ALL = "all"
"""Celery gives a queue without a routing key one of its own, which Redis would then tell apart."""
_SOCKET_S = 5.0
_CONNECT_S = 2.0
_MESSAGE_LIFE_S = 60.0
"""News that nobody took within a minute have been found by a sweep."""


def pool_news(pool_id: str) -> str:
    """The exchange of a pool's news, which all its workers hear."""
    return f"news.{pool_id}"


def replies_to(name: str) -> str:
    """The exchange of what one process asked others to do."""
    return f"replies.{name}"


def make_celery(broker_url: str, namespace: str, **settings: Any) -> Celery:
    """An application of its own on this broker. `namespace` keeps deployments that share a Redis apart."""
    app = Celery("rollway", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_serializer="json",
        accept_content=["json"],
        result_backend=None,
        task_ignore_result=True,
        task_create_missing_queues=True,
        task_default_queue="rollway",
        task_publish_retry=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        worker_enable_remote_control=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "global_keyprefix": f"{namespace}:",
            "socket_timeout": _SOCKET_S,
            "socket_connect_timeout": _CONNECT_S,
            "socket_keepalive": True,
            "health_check_interval": 10,
        },
        **settings,
    )
    return app


def work_queue(name: str) -> Queue:
    """A queue whose messages each go to one of those who consume it."""
    return Queue(name, exchange=Exchange(name, type="direct"), routing_key=name)


def fanout(name: str) -> Exchange:
    """An exchange whose messages reach everybody who listens now, and nobody later."""
    return Exchange(name, type="fanout", durable=False, auto_delete=False, delivery_mode="transient")


def heard_on(name: str) -> Broadcast:
    """A queue of one's own on a fanout exchange."""
    return Broadcast(name, exchange=fanout(name), routing_key=_ALL, durable=False)


def send(app: Celery, task: str, arguments: tuple[Any, ...], *, to: str | Exchange, **options: Any) -> None:
    """Publish a task message to a queue, or to all who hear an exchange. Raises what the broker raises; never retries."""
    options = {"expires": _MESSAGE_LIFE_S, "retry": False, "ignore_result": True} | options
    if isinstance(to, Exchange):
        app.send_task(task, arguments, exchange=to, exchange_type="fanout", routing_key=_ALL, declare=[to], **options)
    else:
        app.send_task(task, arguments, queue=to, **options)
