"""How tokens are drawn, and which distribution the recorded log-probs are of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from rollway.types.base import INT32_MAX, Request, Seed, Text, TokenId

LogprobKind = Literal["raw", "tempered", "truncated"]


class Sampling(Request):
    """Sampling of every rollout of a job.

    `top_p`, `top_k` and `min_p` cut the distribution, but engines report log-probs of the uncut one, so a trainer's
    importance ratio would be wrong without notice. They are refused unless `allow_truncated_sampling` is set; samples
    then say `logprob_kind: tempered` together with the cuts.
    """

    temperature: Annotated[float, Field(ge=0, le=100, description="0 is greedy")] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[StrictInt, Field(ge=0, le=INT32_MAX, description="0 is off")] = 0
    min_p: Annotated[float, Field(ge=0, lt=1)] = 0.0
    max_new_tokens: Annotated[StrictInt, Field(ge=1, le=10_000_000, description="per rollout, over all its turns")] = (
        1024
    )
    stop_token_ids: Annotated[list[TokenId], Field(max_length=64)] = []
    stop: Annotated[
        list[Annotated[Text, Field(min_length=1, max_length=1000)]],
        Field(max_length=16, description="stop strings; only on engines that support them"),
    ] = []
    ignore_eos: StrictBool = False
    seed: Annotated[
        Seed | None,
        Field(description="seed of the job; each rollout gets its own, derived from it (null: the service draws one)"),
    ] = None
    allow_truncated_sampling: StrictBool = False

    @model_validator(mode="after")
    def _refuse_silent_truncation(self) -> Sampling:
        if self.is_truncated and not self.allow_truncated_sampling:
            raise ValueError(
                "top_p < 1, top_k > 0 and min_p > 0 cut the distribution, but recorded log-probs are of the uncut one;"
                " set allow_truncated_sampling: true to accept samples labelled so"
            )
        return self

    @property
    def is_truncated(self) -> bool:
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0
