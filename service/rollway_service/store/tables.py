"""All tables. Narrow hot tables (work items, deliveries, counters) are apart from the wide records.

Large tables are range-partitioned by id on PostgreSQL, so that retention drops partitions and never deletes rows.
Times are seconds since 1970 by the database's clock. States are plain strings, checked in `core/states.py`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    text,
)

from rollway_service.store.columns import SafeJson, SafeText

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)

ID = String(36).with_variant(String(36, collation="C"), "postgresql")
"""Ids compare byte by byte, whatever the database's locale."""
PARTITIONED: dict[str, str] = {
    "rollouts": "rollout",
    "trees": "tree",
    "trajectories": "trajectory",
    "array_blobs": "tree",
}
"""Partitioned tables and the kind of their ids."""

HOT: Any = {"postgresql_with": {"fillfactor": 70}}


def _id(name: str = "id", **kwargs: Any) -> Column[str]:
    return Column(name, ID, nullable=False, **kwargs)


def _time(name: str, *, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


def _owned() -> list[Column[Any]]:
    return [_id("tenant_id"), _id("run_id")]


tenants = Table(
    "tenants",
    metadata,
    _id(primary_key=True),
    Column("name", SafeText, nullable=False, unique=True),
    _time("created_at_s"),
)

api_keys = Table(
    "api_keys",
    metadata,
    _id(primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("name", SafeText, nullable=False),
    Column("prefix", String(16), nullable=False, unique=True),
    Column("secret_sha256", String(64), nullable=False),
    Column("scopes", SafeJson, nullable=False),
    _time("created_at_s"),
    _time("expires_at_s", nullable=True),
    _time("revoked_at_s", nullable=True),
)

models = Table(
    "models",
    metadata,
    _id(primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("name", SafeText, nullable=False),
    Column("source", SafeText, nullable=False),
    Column("tokenizer_digest", String(80)),
    Column("template_digest", String(80)),
    Column("vocab_size", Integer),
    Column("context_length", Integer),
    Column("eos_token_ids", SafeJson, nullable=False),
    Column("latest_version", Integer, nullable=False),
    Column("metadata", SafeJson, nullable=False),
    _time("created_at_s"),
    UniqueConstraint("tenant_id", "name"),
)

weight_versions = Table(
    "weight_versions",
    metadata,
    Column("model_id", ID, ForeignKey("models.id"), nullable=False),
    Column("version", Integer, nullable=False),
    _id("tenant_id"),
    Column("parent", Integer),
    Column("trainer_step", BigInteger, nullable=False),
    Column("digest", String(80)),
    Column("source", SafeText, nullable=False),
    Column("metadata", SafeJson, nullable=False),
    _time("created_at_s"),
    PrimaryKeyConstraint("model_id", "version"),
)

pools = Table(
    "pools",
    metadata,
    _id(primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("name", SafeText, nullable=False),
    Column("model_id", ID, ForeignKey("models.id")),
    Column("profile", SafeText, nullable=False),
    Column("labels", SafeJson, nullable=False),
    _time("created_at_s"),
    UniqueConstraint("tenant_id", "name"),
)

workers = Table(
    "workers",
    metadata,
    _id(primary_key=True),
    _id("tenant_id"),
    Column("pool_id", ID, ForeignKey("pools.id"), nullable=False),
    Column("name", SafeText, nullable=False),
    Column("epoch", Integer, nullable=False),
    _time("created_at_s"),
    UniqueConstraint("pool_id", "name"),
)

worker_sessions = Table(
    "worker_sessions",
    metadata,
    _id(primary_key=True),
    _id("tenant_id"),
    Column("worker_id", ID, ForeignKey("workers.id"), nullable=False),
    _id("pool_id"),
    Column("epoch", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("slots", Integer, nullable=False),
    Column("active_version", Integer),
    Column("engine", SafeJson, nullable=False),
    _time("opened_at_s"),
    _time("seen_at_s"),
    _time("expires_at_s"),
    Index(None, "worker_id"),
    **HOT,
)

runs = Table(
    "runs",
    metadata,
    _id(primary_key=True),
    Column("tenant_id", ID, ForeignKey("tenants.id"), nullable=False),
    Column("model_id", ID, ForeignKey("models.id"), nullable=False),
    Column("pool_id", ID, ForeignKey("pools.id"), nullable=False),
    Column("name", SafeText, nullable=False),
    Column("tags", SafeJson, nullable=False),
    Column("metadata", SafeJson, nullable=False),
    _time("created_at_s"),
    Index(None, "tenant_id", "id"),
)

jobs = Table(
    "jobs",
    metadata,
    _id(primary_key=True),
    _id("tenant_id"),
    Column("run_id", ID, ForeignKey("runs.id"), nullable=False),
    Column("model_id", ID, ForeignKey("models.id"), nullable=False),
    Column("pool_id", ID, ForeignKey("pools.id"), nullable=False),
    Column("purpose", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("base_version", Integer, nullable=False),
    Column("spec", SafeJson, nullable=False),
    _time("created_at_s"),
    _time("ended_at_s", nullable=True),
    Index(None, "run_id", "id"),
    Index(
        "ix_jobs_live",
        "pool_id",
        "id",
        postgresql_where=text("state in ('open', 'closed')"),
        sqlite_where=text("state in ('open', 'closed')"),
    ),
)


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


job_counters = Table(
    "job_counters",
    metadata,
    Column("job_id", ID, primary_key=True),
    *_owned(),
    _count("tasks"),
    _count("tasks_admitted"),
    _count("groups_admitted"),
    _count("groups_ready"),
    _count("groups_dropped"),
    _count("groups_failed"),
    _count("groups_cancelled"),
    _count("groups_consumed"),
    _count("groups_stale"),
    _count("bytes_ready"),
    _count("bytes_consumed"),
    _count("rollouts_completed"),
    _count("rollouts_failed"),
    _count("rollouts_cancelled"),
    _count("rollouts_scored"),
    _count("rollouts_unscored"),
    _count("rollouts_refilled"),
    Column("reward_sum", Double, nullable=False, server_default="0"),
    _count("prompt_tokens"),
    _count("sampled_tokens"),
    _count("trainable_tokens"),
    _count("wasted_tokens"),
    _count("nonfinite_logprobs"),
    _count("missing_logprobs"),
    Column("drops", SafeJson, nullable=False),
    Column("failures", SafeJson, nullable=False),
    Column("waiting_for", SafeText),
    **HOT,
)

tasks = Table(
    "tasks",
    metadata,
    _id(primary_key=True),
    *_owned(),
    _id("job_id"),
    Column("task_index", BigInteger, nullable=False),
    Column("key", SafeText),
    Column("prompt_ids", LargeBinary, nullable=False),
    Column("messages", SafeJson),
    Column("reference", SafeJson),
    Column("metadata", SafeJson, nullable=False),
    UniqueConstraint("job_id", "task_index"),
)

groups = Table(
    "groups",
    metadata,
    _id(primary_key=True),
    *_owned(),
    _id("job_id"),
    _id("task_id"),
    Column("task_index", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("size", Integer, nullable=False),
    Column("members", Integer, nullable=False),
    Column("members_open", Integer, nullable=False),
    Column("rewards_open", Integer, nullable=False),
    Column("refills", Integer, nullable=False),
    Column("usable", Integer),
    Column("failed", Integer),
    Column("reason", SafeText),
    Column("decisions", SafeJson, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("ready_order", ID),
    _time("created_at_s"),
    _time("deadline_at_s"),
    _time("ended_at_s", nullable=True),
    Index(None, "job_id", "task_index"),
    Index(
        "ix_groups_open_deadline",
        "deadline_at_s",
        postgresql_where=text("state = 'open'"),
        sqlite_where=text("state = 'open'"),
    ),
    **HOT,
)

work_items = Table(
    "work_items",
    metadata,
    _id(primary_key=True),
    *_owned(),
    _id("job_id"),
    _id("pool_id"),
    _id("group_id"),
    _id("task_id"),
    _id("rollout_id"),
    Column("member_index", Integer, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("rank", Integer, nullable=False, comment="100 - priority: lower goes first"),
    Column("fence", Integer, nullable=False),
    Column("session_id", ID),
    Column("attempts", Integer, nullable=False),
    Column("min_version", Integer),
    Column("exact_version", Integer),
    Column("last_error", SafeText),
    _time("created_at_s"),
    _time("claimed_at_s", nullable=True),
    Column("deadline_s", Double, nullable=False),
    _time("deadline_at_s", nullable=True),
    Index(None, "group_id"),
    Index(None, "rollout_id"),
    Index(
        "ix_work_items_queued",
        "pool_id",
        "rank",
        "id",
        postgresql_where=text("state = 'queued'"),
        sqlite_where=text("state = 'queued'"),
    ),
    Index(
        "ix_work_items_claimed",
        "session_id",
        postgresql_where=text("state = 'claimed'"),
        sqlite_where=text("state = 'claimed'"),
    ),
    **HOT,
)

checkpoints = Table(
    "checkpoints",
    metadata,
    _id("work_item_id"),
    Column("sequence", Integer, nullable=False),
    *_owned(),
    Column("fence", Integer, nullable=False),
    Column("sampled_tokens", Integer, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    _time("created_at_s"),
    PrimaryKeyConstraint("work_item_id", "sequence"),
)


def _partitioned(name: str, *columns: Any) -> Table:
    return Table(name, metadata, *columns, postgresql_partition_by="RANGE (id)")


rollouts = _partitioned(
    "rollouts",
    _id(primary_key=True),
    *_owned(),
    _id("job_id"),
    _id("group_id"),
    _id("task_id"),
    Column("task_index", BigInteger, nullable=False),
    Column("member_index", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("reward", Double),
    Column("rewards", SafeJson, nullable=False),
    Column("rewards_deadline_at_s", Double),
    Column("failure", SafeJson),
    Column("usage", SafeJson, nullable=False),
    Column("timings", SafeJson, nullable=False),
    Column("decisions", SafeJson, nullable=False),
    _time("created_at_s"),
    _time("ended_at_s"),
    Index(None, "group_id"),
    Index(None, "job_id", "id"),
    Index(
        "ix_rollouts_awaiting",
        "rewards_deadline_at_s",
        postgresql_where=text("state = 'awaiting_reward'"),
        sqlite_where=text("state = 'awaiting_reward'"),
    ),
)

trees = _partitioned(
    "trees",
    _id(primary_key=True),
    *_owned(),
    _id("job_id"),
    _id("group_id"),
    _id("work_item_id"),
    Column("layout", SafeJson, nullable=False),
    Column("array_ref", SafeJson, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("num_tokens", Integer, nullable=False),
    Column("num_bytes", Integer, nullable=False),
    _time("created_at_s"),
    Index(None, "group_id"),
)

trajectories = _partitioned(
    "trajectories",
    _id(primary_key=True),
    *_owned(),
    _id("job_id"),
    _id("group_id"),
    _id("task_id"),
    _id("rollout_id"),
    _id("tree_id"),
    Column("path", SafeJson, nullable=False),
    Column("role", String(200), nullable=False),
    _id("model_id"),
    Column("recipe", String(200), nullable=False),
    Column("stop_reason", String(16), nullable=False),
    Column("stop_detail", SafeText),
    Column("finish_reasons", SafeJson, nullable=False),
    Column("num_tokens", Integer, nullable=False),
    Column("num_sampled", Integer, nullable=False),
    Column("num_trainable", Integer, nullable=False),
    Column("versions", SafeJson, nullable=False),
    Column("oldest_version", Integer),
    Column("newest_version", Integer),
    Column("logprob_kind", String(16), nullable=False),
    Column("sampling", SafeJson, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("engine", SafeJson, nullable=False),
    Column("findings", SafeJson, nullable=False),
    _time("created_at_s"),
    Index(None, "group_id"),
    Index(None, "rollout_id"),
    Index(None, "run_id", "id"),
)

array_blobs = _partitioned(
    "array_blobs",
    _id(primary_key=True),
    *_owned(),
    Column("data", LargeBinary, nullable=False),
)

consumer_groups = Table(
    "consumer_groups",
    metadata,
    _id(primary_key=True),
    *_owned(),
    Column("name", SafeText, nullable=False),
    _time("created_at_s"),
    UniqueConstraint("run_id", "name"),
)

batches = Table(
    "batches",
    metadata,
    _id(primary_key=True),
    *_owned(),
    _id("consumer_group_id"),
    Column("consumer", SafeText, nullable=False),
    Column("request_id", SafeText),
    Column("request", SafeJson, nullable=False),
    Column("trainer_version", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("step", BigInteger),
    _time("created_at_s"),
    _time("expires_at_s"),
    UniqueConstraint("consumer_group_id", "request_id"),
    Index(
        "ix_batches_leased",
        "expires_at_s",
        postgresql_where=text("state = 'leased'"),
        sqlite_where=text("state = 'leased'"),
    ),
    **HOT,
)

deliveries = Table(
    "deliveries",
    metadata,
    _id("consumer_group_id"),
    _id("group_id"),
    *_owned(),
    _id("job_id"),
    Column("ready_order", ID, nullable=False),
    Column("state", String(16), nullable=False),
    Column("batch_id", ID),
    Column("fence", Integer, nullable=False),
    Column("stale_rollouts", SafeJson, nullable=False),
    Column("stale_versions", SafeJson, nullable=False),
    Column("step", BigInteger),
    Column("num_bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("consumer_group_id", "group_id"),
    Index(
        "ix_deliveries_offered",
        "consumer_group_id",
        "ready_order",
        postgresql_where=text("state = 'offered'"),
        sqlite_where=text("state = 'offered'"),
    ),
    Index(
        "ix_deliveries_leased",
        "batch_id",
        postgresql_where=text("state = 'leased'"),
        sqlite_where=text("state = 'leased'"),
    ),
    Index("ix_deliveries_step", "consumer_group_id", "step"),
    **HOT,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    _id("tenant_id"),
    Column("key", SafeText, nullable=False),
    Column("body_sha256", String(64), nullable=False),
    Column("verb", String(64), nullable=False),
    Column("run_id", ID),
    Column("job_id", ID),
    Column("answer", SafeJson, nullable=False),
    _time("created_at_s"),
    PrimaryKeyConstraint("tenant_id", "key"),
)

partitions = Table(
    "partitions",
    metadata,
    Column("name", String(80), primary_key=True),
    Column("table_name", String(40), nullable=False),
    _time("from_s"),
    _time("to_s"),
    _time("created_at_s"),
    _time("dropped_at_s", nullable=True),
)

steward_turns = Table(
    "steward_turns",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("turn", BigInteger, nullable=False),
    _time("taken_at_s"),
    **HOT,
)
