"""Problems as errors of the SDK, and what is sent again after which fault."""

import httpx
import pytest

from rollway import errors
from rollway._sync import transport as transport_module
from rollway._sync.transport import RestTransport, new_key
from rollway.errors import ApiError, ConnectionFailed, error_of
from rollway.types import Problem
from tests.builders import ScriptedAnswers

PROBLEM = {"type": "t", "title": "x", "code": "stale_fence", "detail": "too late"}


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROLLWAY_API_KEY", raising=False)
    monkeypatch.setattr(transport_module, "_FIRST_BACKOFF_S", 0.001)


def answered(answers, *, tries=3, key="rw_key", **options):
    """What comes of one request to a service that gives these answers, and the requests that it saw."""
    script = ScriptedAnswers(answers)
    transport = RestTransport("http://service", key, timeout_s=1.0, max_tries=tries)
    transport.close()
    with httpx.Client(
        transport=script, base_url=transport.base_url, headers=transport._http.headers
    ) as transport._http:
        try:
            return transport._send("POST", "/v1/jobs", **options).json(), script.requests
        except errors.RollwayError as error:
            return error, script.requests


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.NotAuthorized),
        (403, errors.NotAuthorized),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, errors.BadRequest),
        (422, errors.BadRequest),
        (429, errors.Busy),
        (503, errors.Busy),
        (406, ApiError),
        (500, ApiError),
        (502, ApiError),
    ],
)
def test_a_problem_is_an_error_that_tells_all_of_it(status, kind):
    problem = Problem.model_validate(PROBLEM | {"status": status, "errors": [{"path": "$.a", "message": "bad"}]})
    error = error_of(problem, retry_after_s=2.0)
    assert type(error) is kind
    assert (error.status, error.code, error.detail, error.retry_after_s) == (status, "stale_fence", "too late", 2.0)
    assert str(error) == f"{status} stale_fence: too late"
    assert [item.path for item in error.errors] == ["$.a"]
    assert isinstance(error, errors.RollwayError)


OK = httpx.Response(200, json={"ok": 1})
LOST = httpx.ReadError("reset")
UNREACHABLE = httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("answers", "outcome", "num_requests"),
    [
        ([OK], None, 1),
        ([503, OK], None, 2),
        ([502, 504, OK], None, 3),
        ([429, OK], None, 2),
        ([503, 503, 503, OK], errors.Busy, 3),
        ([500, OK], ApiError, 1),
        ([400, OK], errors.BadRequest, 1),
        ([409, OK], errors.Conflict, 1),
        ([422, OK], errors.BadRequest, 1),
        ([LOST, OK], None, 2),
        ([LOST, LOST, LOST, OK], ConnectionFailed, 3),
        ([UNREACHABLE, OK], None, 2),
        ([httpx.ReadTimeout("slow"), OK], None, 2),
        ([UNREACHABLE, LOST, 503, OK], errors.Busy, 3),
    ],
)
def test_what_may_work_later_is_sent_again(answers, outcome, num_requests):
    found, requests = answered(answers)
    assert len(requests) == num_requests
    assert found == {"ok": 1} if outcome is None else type(found) is outcome


def test_a_request_that_is_sent_again_is_the_same_one():
    _, requests = answered([503, LOST, OK], headers={"Idempotency-Key": "k1"}, params={"a": 1, "b": None})
    assert [request.headers["idempotency-key"] for request in requests] == ["k1"] * 3
    assert {str(request.url) for request in requests} == {"http://service/v1/jobs?a=1"}
    assert {request.headers["authorization"] for request in requests} == {"Bearer rw_key"}


def test_without_a_key_no_credentials_are_sent():
    _, requests = answered([OK], key=None)
    assert "authorization" not in requests[0].headers


@pytest.mark.parametrize(
    ("headers", "content", "code", "detail"),
    [
        ({"content-type": "application/problem+json"}, b"{}", "unknown", "{}"),
        ({"content-type": "application/problem+json"}, b"not json", "unknown", "not json"),
        ({"content-type": "text/html"}, b"<h1>" + b"x" * 1000, "unknown", "<h1>" + "x" * 496),
        ({}, b"", "unknown", "Bad Gateway"),
    ],
)
def test_an_answer_that_is_no_problem_document_is_an_error_all_the_same(headers, content, code, detail):
    response = httpx.Response(502, headers=headers, content=content)
    error, _ = answered([response], tries=1)
    assert (type(error), error.status, error.code, error.detail) == (ApiError, 502, code, detail)


@pytest.mark.parametrize(
    ("value", "seconds"), [("2", 2.0), ("0", 0.0), ("", None), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
def test_how_long_the_service_asks_to_wait(value, seconds):
    response = httpx.Response(503, headers={"Retry-After": value}, json={})
    error, _ = answered([response], tries=1)
    assert error.retry_after_s == seconds


def test_waits_grow_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(transport_module, "_FIRST_BACKOFF_S", 0.2)
    waits = [max(transport_module.backoff_s(attempt) for _ in range(50)) for attempt in range(1, 12)]
    assert waits[0] <= 0.2
    assert all(wait <= 10.0 for wait in waits)
    assert 1.0 < waits[3] <= 1.6


@pytest.mark.parametrize(("asked", "waited"), [("2", 2.0), ("59", 59.0), ("86400", 60.0)])
def test_a_wait_is_as_long_as_the_service_asks_but_never_endless(monkeypatch, asked, waited):
    waits = []
    monkeypatch.setattr(transport_module, "sleep", waits.append)
    response = httpx.Response(503, headers={"Retry-After": asked}, json={})
    assert answered([response, OK])[0] == {"ok": 1}
    assert waits == [waited]


def test_keys_are_never_made_twice():
    assert len({new_key() for _ in range(1000)}) == 1000
