"""What integration tests say of refused requests, and bodies with one thing changed."""

from __future__ import annotations

import copy
import itertools
import re
from typing import Any

import httpx

from rollway.types import PROBLEM_MEDIA_TYPE, Problem
from tests.stack import Stack


def problem_of(response: httpx.Response, status: int, code: str) -> Problem:
    """The problem document of a refusal, after checks that hold of every one."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    problem = Problem.model_validate_json(response.content)
    assert (problem.status, problem.code) == (status, code)
    assert problem.type == f"urn:rollway:problem:{code}"
    assert problem.detail
    return problem


def paths_of(response: httpx.Response, status: int = 422, code: str = "invalid_request") -> list[str]:
    """JSON paths of what a refusal finds wrong."""
    return [error.path for error in problem_of(response, status, code).errors]


async def newest_job(stack: Stack) -> str | None:
    page = (await stack.http.get("/v1/jobs", params={"limit": 1})).raise_for_status().json()
    return next((job["id"] for job in page["items"]), None)


def steps_of(path: str) -> list[str | int]:
    """$.tasks[0].key as ["tasks", 0, "key"]."""
    return [int(index) if index else name for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path)]


def changed(body: Any, path: str, value: Any) -> Any:
    """A copy of the body with this value at this JSON path; objects and lists on the way are made."""
    if path == "$":
        return value
    result = copy.deepcopy(body)
    steps = steps_of(path)
    result = copy.deepcopy(body)
    place = result
    for step, following in itertools.pairwise(steps):
        place = _enter(place, step, [] if isinstance(following, int) else {})
    _enter(place, steps[-1], value)
    place[steps[-1]] = value
    return result


def _enter(place: Any, step: str | int, default: Any) -> Any:
    if isinstance(step, int):
        if step == len(place):
            place.append(default)
        return place[step]
    return place.setdefault(step, default)
