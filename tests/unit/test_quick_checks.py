"""Checks of answers: 1 or 0 for what was checked, an error for what could not be (cases B30, B35)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway.types import ExactReward, NumericReward, RegexReward
from rollway_workers.rewards.quick_checks import CheckFailed, check_exact, check_numeric, check_regex, compile_pattern
from rollway_workers.rewards.slow_checks import registered_functions, run_check


@pytest.mark.parametrize(
    ("options", "answer", "reference", "score"),
    [
        ({}, "42", "42", 1.0),
        ({}, " 42\n", "42", 1.0),
        ({}, "42", 42, 1.0),
        ({}, "43", "42", 0.0),
        ({}, "Yes", "yes", 0.0),
        ({}, "", "42", 0.0),
        ({}, "a\0b", "a\0b", 1.0),
        ({"strip": False}, " 42", "42", 0.0),
        ({"ignore_case": True}, "STRASSE", "straße", 1.0),
    ],
)
def test_exact(options, answer, reference, score):
    assert check_exact(ExactReward(kind="exact", **options), answer, reference) == score


@pytest.mark.parametrize(
    ("options", "answer", "reference", "score"),
    [
        ({}, "the answer is 12", "12", 1.0),
        ({}, "first 3, then 12.", 12, 1.0),
        ({}, "1,234.5", 1234.5, 1.0),
        ({}, "-7", "7", 0.0),
        ({}, "x = -7", -7, 1.0),
        ({}, "x=-7", -7, 1.0),
        ({}, "is \u22127", -7, 1.0),
        ({}, "10-7", 7, 1.0),
        ({}, "(10)-7", 7, 1.0),
        ({}, "1,2,3", 3, 1.0),
        ({}, "4,5 or 1,234,567", 1234567, 1.0),
        ({}, "1234,567", 567, 1.0),
        ({}, "12.", 12, 1.0),
        ({}, "1e3", "1000", 1.0),
        ({}, ".5", 0.5, 1.0),
        ({}, "no number", "1", 0.0),
        ({}, "", "1", 0.0),
        ({}, "1e999", "1", 0.0),
        ({}, "nan", "1", 0.0),
        ({}, "1.0000001", "1", 1.0),
        ({}, "1.1", "1", 0.0),
        ({"absolute_tolerance": 0.5}, "1.5", "1", 1.0),
        ({"absolute_tolerance": 0.5}, "1.51", "1", 0.0),
        ({"relative_tolerance": 0.1}, "109", "100", 1.0),
        ({"relative_tolerance": 0.1}, "-109", "-100", 1.0),
        ({"relative_tolerance": 0.1}, "111", "100", 0.0),
        ({}, "7" * 100_000, "7", 0.0),
    ],
)
def test_numeric(options, answer, reference, score):
    assert check_numeric(NumericReward(kind="numeric", **options), answer, reference) == score


@given(st.floats(-1e12, 1e12, allow_nan=False))
@settings(deadline=None, max_examples=100)
def test_a_number_equals_itself_however_it_is_written(value):
    spec = NumericReward(kind="numeric", absolute_tolerance=0.0)
    for text in (repr(value), f"it is {value!r}.", f"{value:.17e}"):
        assert check_numeric(spec, text, value) == 1.0


@pytest.mark.parametrize(
    ("options", "answer", "reference", "score"),
    [
        ({"pattern": "b+"}, "abbc", None, 1.0),
        ({"pattern": "b+", "full_match": True}, "abbc", None, 0.0),
        ({"pattern": "a(b+)c", "full_match": True}, "abbc", None, 1.0),
        ({"pattern": r"answer: (\w+)", "compare_group": 1}, "answer: yes", "yes", 1.0),
        ({"pattern": r"answer: (\w+)", "compare_group": 1}, "answer: no", "yes", 0.0),
        ({"pattern": r"answer: (\w+)", "compare_group": 1}, "none", "yes", 0.0),
        ({"pattern": r"(\d+)", "compare_group": 0}, "is 5", 5, 1.0),
        ({"pattern": "a|(b)", "compare_group": 1}, "a", "b", 0.0),
        ({"pattern": "(a*)*$"}, "a" * 50_000 + "b", None, 1.0),
        ({"pattern": "^(a+)+$"}, "a" * 50_000 + "b", None, 0.0),
        ({"pattern": "😊"}, "삼 😊", None, 1.0),
    ],
)
def test_regex(options, answer, reference, score):
    assert check_regex(RegexReward(kind="regex", **options), answer, reference) == score


@pytest.mark.parametrize("reference", [None, True, {"answer": 1}, ["x"]])
@pytest.mark.parametrize(
    ("check", "spec"),
    [
        (check_exact, ExactReward(kind="exact")),
        (check_numeric, NumericReward(kind="numeric")),
        (check_regex, RegexReward(kind="regex", pattern="1", compare_group=0)),
    ],
)
def test_a_reference_that_cannot_be_compared_is_an_error_and_not_a_0(check, spec, reference):
    with pytest.raises(CheckFailed, match="reference must be text or a number"):
        check(spec, "1", reference)


@pytest.mark.parametrize("reference", ["no number", "", "1e999", float("nan")])
def test_a_reference_without_a_number_is_an_error_and_not_a_0(reference):
    with pytest.raises(CheckFailed, match="holds no finite number"):
        check_numeric(NumericReward(kind="numeric"), "1", reference)


def test_a_group_that_the_pattern_does_not_have_is_an_error():
    with pytest.raises(CheckFailed, match="no group 2"):
        check_regex(RegexReward(kind="regex", pattern="(a)", compare_group=2), "a", "a")


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(?=a)", r"(a)\1", "["])
def test_a_pattern_outside_of_re2_is_refused(pattern):
    with pytest.raises(CheckFailed, match="not valid in RE2's syntax"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("builtins:len", "len\\(\\) takes no keyword"),
        ("tests.builders:reward_of_length", "returned nan"),
        ("tests.builders:nothing", "nothing"),
        ("no_module_of_this_name:f", "No module named"),
    ],
)
def test_a_function_that_fails_or_gives_no_number_is_an_error_and_not_a_0(target, words):
    request = {"kind": "python", "answer": "", "reference": None, "target": target, "metadata": {}, "arguments": {}}
    with pytest.raises((TypeError, ValueError, AttributeError, ImportError), match=words):
        run_check(request)


def test_an_operators_function_is_given_everything():
    request = {"kind": "python", "answer": "abc", "reference": None, "target": "tests.builders:reward_of_length"}
    assert run_check(request | {"metadata": {"bonus": 1}, "arguments": {"scale": 2.0}}) == 7.0
    with pytest.raises(ValueError, match="no check 'unknown'"):
        run_check(request | {"kind": "unknown"})


def test_functions_are_registered_by_name():
    installed = registered_functions("")
    assert registered_functions("a=m:f, b=n.o:g") == installed | {"a": "m:f", "b": "n.o:g"}
    for setting in ("a", "a=m", "a:m"):
        with pytest.raises(ValueError, match="is not name=module:function"):
            registered_functions(setting)
