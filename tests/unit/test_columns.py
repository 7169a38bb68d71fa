"""Text and JSON on their way into the database: no NUL gets there, and all comes back unchanged (B49, B50)."""

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.postgresql import asyncpg

from rollway_service.store.columns import SafeJson, SafeText, dump_json, escape_nul, load_json, unescape_nul
from tests.strategies import hostile_json, hostile_text

DIALECTS = [asyncpg.dialect(), sqlite.dialect()]


@given(hostile_text)
@example("a\0b")
@example("\ue0000")
@example("\ue0001\0")
@example("\0\ue000\0")
@settings(deadline=None, max_examples=300)
def test_text_comes_back_and_holds_no_nul_meanwhile(text):
    stored = escape_nul(text)
    assert "\0" not in stored
    assert unescape_nul(stored) == text


@given(hostile_text, hostile_text)
@settings(deadline=None, max_examples=200)
def test_two_texts_are_never_stored_as_one(one, other):
    assert (escape_nul(one) == escape_nul(other)) == (one == other)


@pytest.mark.parametrize("text", ["", "plain", "삼겹살 😊", "back\\u0000slash"])
def test_ordinary_text_is_stored_as_it_is(text):
    assert escape_nul(text) == text


@given(hostile_json)
@example({"a\0b": {"\ue000": "\0", "\0": ["\ue0000", "\\u0000"]}})
@settings(deadline=None, max_examples=300)
def test_json_comes_back_and_holds_no_nul_meanwhile(value):
    stored = dump_json(value)
    assert "\0" not in stored
    assert "\0" not in json.dumps(json.loads(stored), ensure_ascii=False)
    assert load_json(stored) == value


@given(st.dictionaries(hostile_text, st.integers(0, 9), max_size=6))
@settings(deadline=None, max_examples=100)
def test_no_key_of_an_object_takes_the_place_of_another(value):
    assert len(json.loads(dump_json(value))) == len(value)


@pytest.mark.parametrize("number", [1e16, 2.0**63, 9.3e18, 1.8e19, 1e20, -9.3e18, 2**63 - 1, -(2**63)])
def test_numbers_that_jsonb_writes_out_in_digits_are_the_same_numbers(number):
    read = load_json(f'{{"a": [{int(number)}]}}')["a"][0]
    assert read == number
    assert isinstance(read, float) or -(2**63) <= read < 2**63


@given(hostile_json)
@settings(deadline=None, max_examples=50)
def test_json_with_other_white_space_is_the_same_json(value):
    """PostgreSQL gives jsonb back with spaces of its own, and all that it can unescaped."""
    stored = dump_json(value)
    for text in (
        json.dumps(json.loads(stored), ensure_ascii=False),
        json.dumps(json.loads(stored), ensure_ascii=False, indent=1),
    ):
        assert load_json(text) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_null(value):
    assert load_json(dump_json({"a": [{"x": value}]})) == {"a": [{"x": None}]}


@pytest.mark.parametrize("value", [{1: "x"}, {"x": object()}, {"x": 2**70}, "\ud800", {"x": b"bytes"}])
def test_what_json_cannot_hold_is_an_error_and_no_surprise_later(value):
    with pytest.raises(TypeError):
        dump_json(value)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    ("column", "value"),
    [(SafeText(), "a\0b"), (SafeText(), None), (SafeJson(), {"a\0": "\0"}), (SafeJson(), None), (SafeJson(), [])],
)
def test_columns_of_both_databases_write_and_read_alike(dialect, column, value):
    bind = column.dialect_impl(dialect).bind_processor(dialect) or (lambda bound: bound)
    result = column.dialect_impl(dialect).result_processor(dialect, None) or (lambda found: found)
    stored = bind(value)
    assert stored is None or (isinstance(stored, str) and "\0" not in stored and "\\u0000" not in stored)
    assert result(stored) == value
