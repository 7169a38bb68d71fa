"""The REST door's pure parts: strict JSON with the path of what is wrong, and errors as problem documents."""

import json

import orjson
import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rollway.types import JobCreate, Problem
from rollway_service.api.bodies import BodyTooLarge, parse_json
from rollway_service.api.problems import STATUS, json_path, problem_response, validation_errors
from rollway_service.core import errors
from rollway_service.core.errors import FieldInvalid, InvalidRequest, ServiceError
from tests.strategies import hostile_json


def service_errors():
    pending, found = [ServiceError], []
    while pending:
        found.append(pending.pop())
        pending.extend(found[-1].__subclasses__())
    return sorted(found, key=lambda kind: kind.__name__)


@given(hostile_json)
@settings(deadline=None, max_examples=150)
def test_json_is_read_as_it_is(value):
    assert parse_json(orjson.dumps(value)) == value
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        (b"NaN", "$", "is nan"),
        (b'{"a": Infinity}', "$.a", "is inf, which JSON does not have; send null"),
        (b'{"a": {"b": [0, {"c": -Infinity}]}}', "$.a.b[1].c", "is -inf"),
        (b'{"tasks": [{}, {"key": "\\ud800"}]}', "$.tasks[1].key", "lone surrogate"),
        (b'{"a": {"\\udfff": 1}}', "$.a", "lone surrogate"),
        (b'{"seed": 100000000000000000000}', "$.seed", "outside the range of int64"),
        (b'{"a": [1, -9223372036854775809]}', "$.a[1]", "outside the range of int64"),
        (b"[" * 100 + b"NaN" + b"]" * 100, "$" + "[0]" * 65, "nested deeper than 64"),
    ],
)
def test_what_lenient_parsers_take_is_refused_with_its_path(body, path, words):
    with pytest.raises(FieldInvalid, match=words) as caught:
        parse_json(body)
    assert [error.path for error in caught.value.errors] == [path]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"a": 1,}', b"{'a': 1}", b"\xff\xfe", b'\xef\xbb\xbf{"a": 1}', b"{} {}", b"[" * 100_000, b'{"a":"\x00"}'],
)  # fmt: skip
def test_what_is_no_json_is_refused(body):
    with pytest.raises(InvalidRequest, match="the body is not JSON"):
        parse_json(body)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b'"100000000000000000000"', "100000000000000000000"),
        (b"0.1000000000000000055511151231257827", 0.1),
        (b"1e300", 1e300),
        (b'"a\\u0000b"', "a\0b"),
    ],
)
def test_long_numbers_that_json_has_are_taken(body, value):
    found = parse_json(body)
    assert (found, type(found)) == (value, type(value))


@given(st.integers(-(10**25), 10**25))
@settings(deadline=None, max_examples=150)
def test_no_integer_is_rounded_in_silence(value):
    try:
        found = parse_json(b'{"a": %d}' % value)["a"]
    except FieldInvalid:
        assert not -(2**63) <= value < 2**64
    else:
        assert (found, type(found)) == (value, int)


@pytest.mark.parametrize(
    ("location", "context", "path"),
    [
        (("body",), {}, "$"),
        ((), {}, "$"),
        (("body", "tasks", 3, "key"), {}, "$.tasks[3].key"),
        (("body", "tasks", 3, "token_ids", 0), {}, "$.tasks[3].token_ids[0]"),
        (("body", "rewards", 0, "python", "function"), {}, "$.rewards[0].function"),
        (("body", "rewards", 0, "exact"), {}, "$.rewards[0]"),
        (("body", "python"), {}, "$.python"),
        (("body", "metadata"), {"suffix": ".a[0]"}, "$.metadata.a[0]"),
        (("query", "limit"), {}, "query:limit"),
        (("header", "Idempotency-Key"), {}, "header:Idempotency-Key"),
    ],
)
def test_locations_become_json_paths(location, context, path):
    assert json_path(location, context) == path


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({"metadata": {"a": [2**63]}}, "$.metadata.a[0]", "is outside the range of int64; send it as a string"),
        ({"close": True}, "$", "a job that is closed at once needs tasks"),
        ({"extra": 1}, "$.extra", "Extra inputs are not permitted"),
    ],
)
def test_messages_stand_without_decoration(body, path, message):
    with pytest.raises(ValidationError) as caught:
        JobCreate.model_validate({"run_id": "r"} | body)
    located = [item | {"loc": ("body", *item["loc"])} for item in caught.value.errors()]
    (found,) = validation_errors(RequestValidationError(located))
    assert (found.path, found.message) == (path, message)


@pytest.mark.parametrize("kind", service_errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_service_is_a_problem_with_a_stable_code(kind):
    error = kind("$.a", "is wrong") if kind is FieldInvalid else kind("what went wrong")
    response = problem_response(error)
    problem = Problem.model_validate_json(bytes(response.body))
    assert response.headers["content-type"] == "application/problem+json"
    assert (problem.status, problem.code, problem.detail) == (response.status_code, kind.code, error.detail)
    assert problem.type == f"urn:rollway:problem:{kind.code}"
    assert problem.retryable == kind.retryable
    assert ("retry-after" in response.headers) == kind.retryable
    assert problem.status == STATUS[kind.code]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.StaleFence(), 409),
        (errors.NotFound.of("job", "x"), 404),
        (errors.Unauthenticated(), 401),
        (errors.FieldInvalid("$.a", "is wrong"), 422),
        (errors.BacklogFull(), 429),
        (errors.Busy(), 503),
        (BodyTooLarge(), 413),
    ],
)
def test_statuses(error, status):
    response = problem_response(error)
    assert response.status_code == status
    assert ("www-authenticate" in response.headers) == (status == 401)


def test_a_problem_names_the_fields():
    problem = Problem.model_validate_json(bytes(problem_response(FieldInvalid("$.a[0]", "is wrong")).body))
    assert [(error.path, error.message) for error in problem.errors] == [("$.a[0]", "is wrong")]
    assert problem.detail == "$.a[0]: is wrong"


def test_an_error_without_words_says_what_its_class_says():
    assert errors.StaleFence().detail == "Someone else owns this now; a late write was refused and changed nothing."
    assert str(errors.NotFound.of("job", "a\n")) == "no job 'a\\n'"
