"""The first schema: everything from tenants to deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "20261130_first"
down_revision = None

ID = sa.String(length=36).with_variant(sa.String(length=36, collation="C"), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")
PARTITIONED = ("rollouts", "trees", "trajectories", "array_blobs")


def upgrade() -> None:
    op.create_table(
        "array_blobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_array_blobs"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_table(
        "batches",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("consumer_group_id", ID, nullable=False),
        sa.Column("consumer", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("request", JSON, nullable=False),
        sa.Column("trainer_version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("expires_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
        sa.UniqueConstraint("consumer_group_id", "request_id", name="uq_batches_consumer_group_id_request_id"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "ix_batches_leased",
        "batches",
        ["expires_at_s"],
        unique=False,
        postgresql_where=sa.text("state = 'leased'"),
        sqlite_where=sa.text("state = 'leased'"),
    )
    op.create_table(
        "checkpoints",
        sa.Column("work_item_id", ID, nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("sampled_tokens", sa.Integer(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("work_item_id", "sequence", name="pk_checkpoints"),
    )
    op.create_table(
        "consumer_groups",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_consumer_groups"),
        sa.UniqueConstraint("run_id", "name", name="uq_consumer_groups_run_id_name"),
    )
    op.create_table(
        "deliveries",
        sa.Column("consumer_group_id", ID, nullable=False),
        sa.Column("group_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("ready_order", ID, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("batch_id", ID, nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("stale_rollouts", JSON, nullable=False),
        sa.Column("stale_versions", JSON, nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("consumer_group_id", "group_id", name="pk_deliveries"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "ix_deliveries_leased",
        "deliveries",
        ["batch_id"],
        unique=False,
        postgresql_where=sa.text("state = 'leased'"),
        sqlite_where=sa.text("state = 'leased'"),
    )
    op.create_index(
        "ix_deliveries_offered",
        "deliveries",
        ["consumer_group_id", "ready_order"],
        unique=False,
        postgresql_where=sa.text("state = 'offered'"),
        sqlite_where=sa.text("state = 'offered'"),
    )
    op.create_index("ix_deliveries_step", "deliveries", ["consumer_group_id", "step"], unique=False)
    op.create_table(
        "groups",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("task_index", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.Column("members_open", sa.Integer(), nullable=False),
        sa.Column("rewards_open", sa.Integer(), nullable=False),
        sa.Column("refills", sa.Integer(), nullable=False),
        sa.Column("usable", sa.Integer(), nullable=True),
        sa.Column("failed", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("decisions", JSON, nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("ready_order", ID, nullable=True),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("deadline_at_s", sa.Double(), nullable=False),
        sa.Column("ended_at_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_groups"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("ix_groups_job_id_task_index", "groups", ["job_id", "task_index"], unique=False)
    op.create_index(
        "ix_groups_open_deadline",
        "groups",
        ["deadline_at_s"],
        unique=False,
        postgresql_where=sa.text("state = 'open'"),
        sqlite_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column("verb", sa.String(length=64), nullable=False),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("job_id", ID, nullable=True),
        sa.Column("answer", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "key", name="pk_idempotency_keys"),
    )
    op.create_table(
        "job_counters",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("tasks", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tasks_admitted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_admitted", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_ready", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_dropped", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_failed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_cancelled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_consumed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("groups_stale", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("bytes_ready", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("bytes_consumed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rollouts_completed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rollouts_failed", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rollouts_cancelled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rollouts_scored", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rollouts_unscored", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("rollouts_refilled", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reward_sum", sa.Double(), server_default="0", nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("sampled_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("trainable_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("wasted_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("nonfinite_logprobs", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("missing_logprobs", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("drops", JSON, nullable=False),
        sa.Column("failures", JSON, nullable=False),
        sa.Column("waiting_for", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_counters"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_table(
        "partitions",
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("table_name", sa.String(length=40), nullable=False),
        sa.Column("from_s", sa.Double(), nullable=False),
        sa.Column("to_s", sa.Double(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("dropped_at_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_partitions"),
    )
    op.create_table(
        "rollouts",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("group_id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("task_index", sa.BigInteger(), nullable=False),
        sa.Column("member_index", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("reward", sa.Double(), nullable=True),
        sa.Column("rewards", JSON, nullable=False),
        sa.Column("rewards_deadline_at_s", sa.Double(), nullable=True),
        sa.Column("failure", JSON, nullable=True),
        sa.Column("usage", JSON, nullable=False),
        sa.Column("timings", JSON, nullable=False),
        sa.Column("decisions", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("ended_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_rollouts"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index(
        "ix_rollouts_awaiting",
        "rollouts",
        ["rewards_deadline_at_s"],
        unique=False,
        postgresql_where=sa.text("state = 'awaiting_reward'"),
        sqlite_where=sa.text("state = 'awaiting_reward'"),
    )
    op.create_index("ix_rollouts_group_id", "rollouts", ["group_id"], unique=False)
    op.create_index("ix_rollouts_job_id_id", "rollouts", ["job_id", "id"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("task_index", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("prompt_ids", sa.LargeBinary(), nullable=False),
        sa.Column("messages", JSON, nullable=True),
        sa.Column("reference", JSON, nullable=True),
        sa.Column("metadata", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint("job_id", "task_index", name="uq_tasks_job_id_task_index"),
    )
    op.create_table(
        "tenants",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
        sa.UniqueConstraint("name", name="uq_tenants_name"),
    )
    op.create_table(
        "trajectories",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("group_id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("rollout_id", ID, nullable=False),
        sa.Column("tree_id", ID, nullable=False),
        sa.Column("path", JSON, nullable=False),
        sa.Column("role", sa.String(length=200), nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("recipe", sa.String(length=200), nullable=False),
        sa.Column("stop_reason", sa.String(length=16), nullable=False),
        sa.Column("stop_detail", sa.Text(), nullable=True),
        sa.Column("finish_reasons", JSON, nullable=False),
        sa.Column("num_tokens", sa.Integer(), nullable=False),
        sa.Column("num_sampled", sa.Integer(), nullable=False),
        sa.Column("num_trainable", sa.Integer(), nullable=False),
        sa.Column("versions", JSON, nullable=False),
        sa.Column("oldest_version", sa.Integer(), nullable=True),
        sa.Column("newest_version", sa.Integer(), nullable=True),
        sa.Column("logprob_kind", sa.String(length=16), nullable=False),
        sa.Column("sampling", JSON, nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("engine", JSON, nullable=False),
        sa.Column("findings", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trajectories"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("ix_trajectories_group_id", "trajectories", ["group_id"], unique=False)
    op.create_index("ix_trajectories_rollout_id", "trajectories", ["rollout_id"], unique=False)
    op.create_index("ix_trajectories_run_id_id", "trajectories", ["run_id", "id"], unique=False)
    op.create_table(
        "trees",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("group_id", ID, nullable=False),
        sa.Column("work_item_id", ID, nullable=False),
        sa.Column("layout", JSON, nullable=False),
        sa.Column("array_ref", JSON, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("num_tokens", sa.Integer(), nullable=False),
        sa.Column("num_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trees"),
        postgresql_partition_by="RANGE (id)",
    )
    op.create_index("ix_trees_group_id", "trees", ["group_id"], unique=False)
    op.create_table(
        "work_items",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("pool_id", ID, nullable=False),
        sa.Column("group_id", ID, nullable=False),
        sa.Column("task_id", ID, nullable=False),
        sa.Column("rollout_id", ID, nullable=False),
        sa.Column("member_index", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False, comment="100 - priority: lower goes first"),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("session_id", ID, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("min_version", sa.Integer(), nullable=True),
        sa.Column("exact_version", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("claimed_at_s", sa.Double(), nullable=True),
        sa.Column("deadline_s", sa.Double(), nullable=False),
        sa.Column("deadline_at_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_work_items"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index(
        "ix_work_items_claimed",
        "work_items",
        ["session_id"],
        unique=False,
        postgresql_where=sa.text("state = 'claimed'"),
        sqlite_where=sa.text("state = 'claimed'"),
    )
    op.create_index("ix_work_items_group_id", "work_items", ["group_id"], unique=False)
    op.create_index(
        "ix_work_items_queued",
        "work_items",
        ["pool_id", "rank", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.create_index("ix_work_items_rollout_id", "work_items", ["rollout_id"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("expires_at_s", sa.Double(), nullable=True),
        sa.Column("revoked_at_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_api_keys_tenant_id_tenants"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("prefix", name="uq_api_keys_prefix"),
    )
    op.create_table(
        "models",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("tokenizer_digest", sa.String(length=80), nullable=True),
        sa.Column("template_digest", sa.String(length=80), nullable=True),
        sa.Column("vocab_size", sa.Integer(), nullable=True),
        sa.Column("context_length", sa.Integer(), nullable=True),
        sa.Column("eos_token_ids", JSON, nullable=False),
        sa.Column("latest_version", sa.Integer(), nullable=False),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_models_tenant_id_tenants"),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.UniqueConstraint("tenant_id", "name", name="uq_models_tenant_id_name"),
    )
    op.create_table(
        "pools",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model_id", ID, nullable=True),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_pools_model_id_models"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_pools_tenant_id_tenants"),
        sa.PrimaryKeyConstraint("id", name="pk_pools"),
        sa.UniqueConstraint("tenant_id", "name", name="uq_pools_tenant_id_name"),
    )
    op.create_table(
        "weight_versions",
        sa.Column("model_id", ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("trainer_step", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=80), nullable=True),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_weight_versions_model_id_models"),
        sa.PrimaryKeyConstraint("model_id", "version", name="pk_weight_versions"),
    )
    op.create_table(
        "runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("pool_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tags", JSON, nullable=False),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_runs_model_id_models"),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name="fk_runs_pool_id_pools"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_runs_tenant_id_tenants"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_tenant_id_id", "runs", ["tenant_id", "id"], unique=False)
    op.create_table(
        "workers",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("pool_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name="fk_workers_pool_id_pools"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
        sa.UniqueConstraint("pool_id", "name", name="uq_workers_pool_id_name"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("pool_id", ID, nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("base_version", sa.Integer(), nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("created_at_s", sa.Double(), nullable=False),
        sa.Column("ended_at_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_jobs_model_id_models"),
        sa.ForeignKeyConstraint(["pool_id"], ["pools.id"], name="fk_jobs_pool_id_pools"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_jobs_run_id_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index(
        "ix_jobs_live",
        "jobs",
        ["pool_id", "id"],
        unique=False,
        postgresql_where=sa.text("state in ('open', 'closed')"),
        sqlite_where=sa.text("state in ('open', 'closed')"),
    )
    op.create_index("ix_jobs_run_id_id", "jobs", ["run_id", "id"], unique=False)
    op.create_table(
        "worker_sessions",
        sa.Column("id", ID, nullable=False),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("worker_id", ID, nullable=False),
        sa.Column("pool_id", ID, nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("active_version", sa.Integer(), nullable=True),
        sa.Column("engine", JSON, nullable=False),
        sa.Column("opened_at_s", sa.Double(), nullable=False),
        sa.Column("seen_at_s", sa.Double(), nullable=False),
        sa.Column("expires_at_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name="fk_worker_sessions_worker_id_workers"),
        sa.PrimaryKeyConstraint("id", name="pk_worker_sessions"),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("ix_worker_sessions_worker_id", "worker_sessions", ["worker_id"], unique=False)

    if op.get_bind().dialect.name == "postgresql":
        make_default_partitions()


def make_default_partitions() -> None:
    """Rows of a time without a partition of its own go here, so that nothing is refused."""
    for table in PARTITIONED:
        op.execute(f'CREATE TABLE "{table}_default" PARTITION OF "{table}" DEFAULT')
    # Containers are floats and ids: compressing them costs time and saves little, and EXTERNAL keeps range reads cheap.
    op.execute("ALTER TABLE array_blobs ALTER COLUMN data SET STORAGE EXTERNAL")
    op.execute("ALTER TABLE checkpoints ALTER COLUMN payload SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_index("ix_worker_sessions_worker_id", table_name="worker_sessions")
    op.drop_table("worker_sessions")
    op.drop_index("ix_jobs_run_id_id", table_name="jobs")
    op.drop_index(
        "ix_jobs_live",
        table_name="jobs",
        postgresql_where=sa.text("state in ('open', 'closed')"),
        sqlite_where=sa.text("state in ('open', 'closed')"),
    )
    op.drop_table("jobs")
    op.drop_table("workers")
    op.drop_index("ix_runs_tenant_id_id", table_name="runs")
    op.drop_table("runs")
    op.drop_table("weight_versions")
    op.drop_table("pools")
    op.drop_table("models")
    op.drop_table("api_keys")
    op.drop_index("ix_work_items_rollout_id", table_name="work_items")
    op.drop_index(
        "ix_work_items_queued",
        table_name="work_items",
        postgresql_where=sa.text("state = 'queued'"),
        sqlite_where=sa.text("state = 'queued'"),
    )
    op.drop_index("ix_work_items_group_id", table_name="work_items")
    op.drop_index(
        "ix_work_items_claimed",
        table_name="work_items",
        postgresql_where=sa.text("state = 'claimed'"),
        sqlite_where=sa.text("state = 'claimed'"),
    )
    op.drop_table("work_items")
    op.drop_index("ix_trees_group_id", table_name="trees")
    op.drop_table("trees")
    op.drop_index("ix_trajectories_run_id_id", table_name="trajectories")
    op.drop_index("ix_trajectories_rollout_id", table_name="trajectories")
    op.drop_index("ix_trajectories_group_id", table_name="trajectories")
    op.drop_table("trajectories")
    op.drop_table("tenants")
    op.drop_table("tasks")
    op.drop_index("ix_rollouts_job_id_id", table_name="rollouts")
    op.drop_index("ix_rollouts_group_id", table_name="rollouts")
    op.drop_index(
        "ix_rollouts_awaiting",
        table_name="rollouts",
        postgresql_where=sa.text("state = 'awaiting_reward'"),
        sqlite_where=sa.text("state = 'awaiting_reward'"),
    )
    op.drop_table("rollouts")
    op.drop_table("partitions")
    op.drop_table("job_counters")
    op.drop_table("idempotency_keys")
    op.drop_index(
        "ix_groups_open_deadline",
        table_name="groups",
        postgresql_where=sa.text("state = 'open'"),
        sqlite_where=sa.text("state = 'open'"),
    )
    op.drop_index("ix_groups_job_id_task_index", table_name="groups")
    op.drop_table("groups")
    op.drop_index("ix_deliveries_step", table_name="deliveries")
    op.drop_index(
        "ix_deliveries_offered",
        table_name="deliveries",
        postgresql_where=sa.text("state = 'offered'"),
        sqlite_where=sa.text("state = 'offered'"),
    )
    op.drop_index(
        "ix_deliveries_leased",
        table_name="deliveries",
        postgresql_where=sa.text("state = 'leased'"),
        sqlite_where=sa.text("state = 'leased'"),
    )
    op.drop_table("deliveries")
    op.drop_table("consumer_groups")
    op.drop_table("checkpoints")
    op.drop_index(
        "ix_batches_leased",
        table_name="batches",
        postgresql_where=sa.text("state = 'leased'"),
        sqlite_where=sa.text("state = 'leased'"),
    )
    op.drop_table("batches")
    op.drop_table("array_blobs")
