"""Tasks: what a group of rollouts attempts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollway.types.base import Json, Metadata, Name, Request, Response, Text, TokenId

MAX_PROMPT_IDS = 4_000_000


class Message(Request):
    role: Literal["system", "user", "assistant", "tool"]
    content: Text


class Task(Request):
    """One prompt, as chat messages or as token ids (exactly one of them).

    `reference` is what rewards compare with (an answer, or a reasoning-gym entry); it is never shown to the model.
    """

    messages: Annotated[list[Message] | None, Field(min_length=1, max_length=10_000)] = None
    token_ids: Annotated[list[TokenId] | None, Field(min_length=1, max_length=MAX_PROMPT_IDS)] = None
    reference: Json = None
    key: Annotated[Name | None, Field(description="the caller's own name of the task")] = None
    metadata: Metadata = {}

    @model_validator(mode="after")
    def _check_prompt(self) -> Task:
        if (self.messages is None) == (self.token_ids is None):
            raise ValueError("send exactly one of messages and token_ids")
        if self.messages is not None and not any(message.content for message in self.messages):
            raise ValueError("the prompt is empty: no message has content")
        return self


class TasksAppend(Request):
    tasks: Annotated[list[Task], Field(min_length=1, max_length=100_000)]
    close: Annotated[bool, Field(description="no more tasks will come")] = False


class TasksAppended(Response):
    job_id: str
    first_task_index: int
    num_tasks: int
    backlog: int
