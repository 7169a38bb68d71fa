"""Turns of the steward, so that several of them sweep no more often than one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20261201_steward_turns"
down_revision = "20261130_first"


def upgrade() -> None:
    op.create_table(
        "steward_turns",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("taken_at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_steward_turns"),
        postgresql_with={"fillfactor": 70},
    )


def downgrade() -> None:
    op.drop_table("steward_turns")
