"""Seeds of rollouts: one for each, derived, so that members differ and a job with the same seed gives the same set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

SEED_BITS = 53
"""Inside the range of every engine (int64), and exact as a JSON number in every language."""


def derive_seed(job_seed: int, task_index: int, member_index: int, fork_path: Sequence[int] = ()) -> int:
    """Seed of one rollout, or of one branch of it, in [0, 2**53).

    Args:
        job_seed: int64.
        task_index: position of the task in its job.
        member_index: position in the group; a refilled member has an index of its own.
        fork_path: node indices at which the branch left its siblings.
    """
    words = [job_seed, task_index, member_index, *fork_path]
    data = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
    digest = hashlib.blake2b(data, digest_size=8, person=b"rollway-seed").digest()
    return int.from_bytes(digest, "little") >> (64 - SEED_BITS)
