"""The registry of policies by name: a literal table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rollway.types import Recipe, Request
from rollway_service.core.errors import FieldError, FieldInvalid, InvalidRequest
from rollway_service.policies.decisions import Decision
from rollway_service.policies.filter import zero_spread
from rollway_service.policies.generate import chain
from rollway_service.policies.views import GroupView, RolloutView


class NoParameters(Request):
    """The policy takes none."""


@dataclass(frozen=True, slots=True)
class FilterPolicy:
    """A filter by name with the model of its parameters."""

    name: str
    parameters: type[Request]
    decide: Callable[[GroupView, Any], Decision]


GENERATE: Mapping[str, Callable[[RolloutView], Decision]] = {"chain": chain.decide}
FILTERS: Mapping[str, FilterPolicy] = {
    "zero_spread": FilterPolicy("zero_spread", zero_spread.Parameters, zero_spread.decide),
}


def _parse(model: type[Request], parameters: Mapping[str, Any], path: str) -> Request:
    try:
        return model.model_validate(dict(parameters))
    except ValidationError as error:
        problems = tuple(
            FieldError(path + "".join(f".{part}" for part in item["loc"]), item["msg"]) for item in error.errors()
        )
        raise InvalidRequest(f"{problems[0].path}: {problems[0].message}", errors=problems) from None


def check_recipe(recipe: Recipe, path: str = "$.recipe") -> None:
    """Raise InvalidRequest, with the JSON path, unless all policies and their parameters are known."""
    if recipe.generate.name not in GENERATE:
        known = ", ".join(sorted(GENERATE))
        raise FieldInvalid(f"{path}.generate.name", f"no generate policy {recipe.generate.name!r}; there are: {known}")
    _parse(NoParameters, recipe.generate.parameters, f"{path}.generate.parameters")
    for index, choice in enumerate(recipe.filters):
        if choice.name not in FILTERS:
            known = ", ".join(sorted(FILTERS))
            raise FieldInvalid(f"{path}.filters[{index}].name", f"no filter policy {choice.name!r}; there are: {known}")
        _parse(FILTERS[choice.name].parameters, choice.parameters, f"{path}.filters[{index}].parameters")


def apply_filters(recipe: Recipe, view: GroupView) -> list[tuple[str, Decision]]:
    """(policy, decision) in listed order, up to and with the first that drops."""
    decisions: list[tuple[str, Decision]] = []
    for choice in recipe.filters:
        policy = FILTERS[choice.name]
        config = _parse(policy.parameters, choice.parameters, f"$.recipe.{choice.name}")
        decisions.append((policy.name, policy.decide(view, config)))
        if decisions[-1][1].action == "drop":
            break
    return decisions
