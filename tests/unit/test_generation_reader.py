"""Reading SGLang's stream: whichever form it has, each id once, with its own log-prob or none (B06, B14, B16)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.engines.ports import EngineError, EngineProtocolError, EngineRejected, EngineUnavailable
from rollway_service.engines.sglang.stream import EngineRestarted, GenerationReader, KnownVersions
from tests.builders import a_stream_event
from tests.strategies import hostile_json

INF, NAN = math.inf, math.nan


def read_all(events, version=0):
    reader = GenerationReader(KnownVersions(launched=version, current=version))
    return [reader.read(event) for event in events]


def joined(chunks, column):
    return np.concatenate([getattr(chunk, column) for chunk in chunks]).tolist()


@given(st.lists(st.tuples(st.integers(0, 99), st.floats(-20, 0, width=32)), max_size=30), st.data())
@settings(deadline=None, max_examples=100)
def test_both_forms_of_the_stream_give_the_same_tokens(tokens, data):
    ids, logprobs = [token for token, _ in tokens], [value for _, value in tokens]
    cuts = sorted({len(ids), *data.draw(st.lists(st.integers(0, len(ids)), max_size=5))})
    for is_cumulative in (True, False):
        starts = [0] * len(cuts) if is_cumulative else [0, *cuts[:-1]]
        events = [
            a_stream_event(ids[start:end], logprobs[start:end], total=end, finish="stop" if end == len(ids) else None)
            for start, end in zip(starts, cuts, strict=True)
        ]
        chunks = read_all(events)
        assert joined(chunks, "token_ids") == ids
        assert joined(chunks, "logprobs") == logprobs
        assert [chunk.finish_reason for chunk in chunks] == [None] * (len(cuts) - 1) + ["stop"]
        assert sum(chunk.missing + chunk.nonfinite for chunk in chunks) == 0


@pytest.mark.parametrize("is_cumulative", [True, False])
def test_a_stream_without_a_count_is_understood(is_cumulative):
    second = [5, 6, 7] if is_cumulative else [6, 7]
    events = [a_stream_event([5], [-1.0], total=None), a_stream_event(second, [-1.0] * len(second), total=None)]
    chunks = read_all(events)
    assert joined(chunks, "token_ids") == [5, 6, 7]
    assert joined(chunks, "logprobs") == [-1.0] * 3


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (-0.1, np.float32(-0.1)),
        (0.0, 0.0),
        (-0.0, 0.0),
        (1e-4, 0.0),
        (0, 0.0),
        (-3, -3.0),
        (0.5, None),
        (-INF, None),
        (INF, None),
        (NAN, None),
        (None, None),
    ],
)
def test_a_log_prob_is_kept_when_it_can_be_true(value, kept):
    (chunk,) = read_all([a_stream_event([5, 6, 7], [-1.0, value, -2.0], finish="length")])
    assert chunk.token_ids.tolist() == [5, 6, 7]
    expected = np.array([-1.0, NAN if kept is None else kept, -2.0], dtype=np.float32)
    np.testing.assert_array_equal(chunk.logprobs, expected)
    assert (chunk.nonfinite, chunk.missing) == (int(kept is None), 0)


@pytest.mark.parametrize(
    "entries",
    [
        [[-1.0, 5]],
        [],
        None,
        [[-1.0, 5], [-1.0, 7]],
        [[-1.0, 6], [-1.0, 5]],
        [[-1.0, 5], [-1.0]],
        [[-1.0, 5], None],
        [[-1.0, 5], ["-1.0", 6]],
        [[-1.0, 5], [True, 6]],
    ],
)
def test_log_probs_that_cannot_be_assigned_are_missing_and_the_ids_stay(entries):
    event = a_stream_event([5, 6], finish="stop")
    event["meta_info"]["output_token_logprobs"] = entries
    (chunk,) = read_all([event])
    assert chunk.token_ids.tolist() == [5, 6]
    assert np.isnan(chunk.logprobs).tolist() == [True, True]
    assert (chunk.missing, chunk.nonfinite) == (2, 0)


def test_a_chunk_without_log_probs_does_not_shift_the_next():
    chunks = read_all(
        [
            a_stream_event([5, 6], [-1.0], total=2),
            a_stream_event([7], [-3.0], total=3, finish="stop"),
        ]
    )
    np.testing.assert_array_equal(joined(chunks, "logprobs"), [NAN, NAN, -3.0])
    assert [chunk.missing for chunk in chunks] == [2, 0]


@pytest.mark.parametrize(
    ("last_ids", "last_logprobs", "total", "gained"),
    [
        ([], [], 0, []),
        ([], [], 3, []),
        ([7], [-1.0, -2.0, -3.0], 3, []),
        ([5, 6, 7], [-1.0, -2.0, -3.0], 3, []),
        ([5, 6, 7, 8], [-1.0, -2.0, -3.0, -4.0], 4, [8]),
        ([8], [-1.0, -2.0, -3.0, -4.0], 4, [8]),
        ([8, 8], [-1.0, -2.0, -3.0, -4.0], 4, [8]),
        ([8], [-4.0], 4, [8]),
    ],
)
def test_an_abort_adds_what_is_new_and_takes_nothing_away(last_ids, last_logprobs, total, gained):
    last = a_stream_event(last_ids, total=total, finish="abort")
    of_ids = last_ids if len(last_logprobs) == 1 else [5, 6, 7, 8]
    last["meta_info"]["output_token_logprobs"] = [
        list(entry) for entry in zip(last_logprobs, of_ids[: len(last_logprobs)], strict=True)
    ]
    first, end = read_all([a_stream_event([5, 6, 7], [-1.0, -2.0, -3.0], total=3), last])
    assert first.token_ids.tolist() == [5, 6, 7]
    assert end.token_ids.tolist() == gained
    assert end.logprobs.tolist() == [-4.0] * len(gained)
    assert (end.finish_reason, end.missing) == ("abort", 0)


@pytest.mark.parametrize("spans", [[(7, 0, 0)], [(7, 0, 0), (8, 0, 0)]])
def test_an_abort_that_answers_with_nothing_and_spans_of_no_length_takes_nothing_away(spans):
    last = a_stream_event([], total=0, finish="abort", spans=spans)
    chunks = read_all([a_stream_event([5, 6], total=2, version="7"), last], version=7)
    assert joined(chunks, "token_ids") == [5, 6]
    assert joined(chunks, "weight_versions") == [7, 7]
    assert chunks[-1].finish_reason == "abort"


def test_an_abort_after_the_very_first_token_is_no_contradiction():
    first = a_stream_event([5], [-1.0], total=1)
    last = a_stream_event([7, 7], total=2, finish="abort")
    last["meta_info"]["output_token_logprobs"] = [[-1.0, 5], [-2.0, 7]]
    chunks = read_all([first, last])
    assert joined(chunks, "token_ids") == [5, 7]
    assert joined(chunks, "logprobs") == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("finish", "reason", "detail"),
    [
        (None, None, None),
        ({"type": "stop", "matched": 2}, "stop", "matched 2"),
        ({"type": "stop", "matched": "\n\n"}, "stop", "matched \n\n"),
        ({"type": "stop"}, "stop", None),
        ({"type": "length", "length": 10}, "length", None),
        ({"type": "abort", "message": "weights"}, "abort", "weights"),
        ({"type": "abort"}, "abort", "aborted"),
        ({"type": "abort", "message": None, "status_code": None}, "abort", "aborted"),
        ("stop", "stop", None),
        ("abort", "abort", None),
    ],
)
def test_finish_reasons(finish, reason, detail):
    event = a_stream_event([5], [-1.0])
    event["meta_info"]["finish_reason"] = finish
    (chunk,) = read_all([event])
    assert (chunk.finish_reason, chunk.finish_detail) == (reason, detail)


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        ({"error": {"message": "too long", "code": 400}}, EngineRejected, "refuses the request \\(400\\): too long"),
        ({"error": {"message": "busy", "code": 503}}, EngineUnavailable, "failed \\(503\\): busy"),
        ({"error": {"message": "later", "code": 429}}, EngineUnavailable, "later"),
        ({"error": "plain words"}, EngineRejected, "plain words"),
        ({"error": {}}, EngineRejected, "400"),
    ],
)
def test_an_error_in_the_stream_says_whether_to_ask_again(event, error, words):
    with pytest.raises(error, match=words):
        read_all([event])


@pytest.mark.parametrize(
    ("status", "error"), [(400, EngineRejected), (408, EngineUnavailable), (500, EngineUnavailable)]
)
def test_an_abort_with_a_status_is_an_error(status, error):
    event = a_stream_event([], finish="abort")
    event["meta_info"]["finish_reason"]["status_code"] = status
    with pytest.raises(error, match=str(status)):
        read_all([event])


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([{}], "no meta_info"),
        ([{"meta_info": []}], "no meta_info"),
        ([["not", "an", "object"]], "another form"),
        ([a_stream_event([-1], [-1.0])], "no token id"),
        ([a_stream_event([2**31], [-1.0])], "no token id"),
        ([a_stream_event([True], [-1.0])], "no token id"),
        ([a_stream_event(["5"], [-1.0])], "no token id"),
        ([a_stream_event([5], [-1.0], total=3)], "counts 3 tokens, 0 were seen, and it gave 1"),
        ([a_stream_event([5, 6], total=2), a_stream_event([5, 9, 7], total=3)], "changed ids"),
        ([a_stream_event([5, 6], total=2), a_stream_event([7, 8], total=3)], "counts 3 tokens, 2 were seen"),
        ([a_stream_event([5], finish="tired")], "unknown finish reason 'tired'"),
        ([{"meta_info": {"completion_tokens": 1}, "output_ids": 7}], "another form"),
    ],
)
def test_what_cannot_be_true_is_an_error_of_the_engine(events, words):
    with pytest.raises(EngineProtocolError, match=words):
        read_all(events)


events = st.fixed_dictionaries(
    {},
    optional={
        "output_ids": st.lists(st.integers(0, 9), max_size=3) | hostile_json,
        "error": st.none() | hostile_json,
        "meta_info": hostile_json
        | st.fixed_dictionaries(
            {},
            optional={
                "completion_tokens": st.integers(-1, 5) | hostile_json,
                "finish_reason": st.sampled_from([None, "stop", {"type": "abort"}]) | hostile_json,
                "output_token_logprobs": st.lists(st.tuples(st.floats(), st.integers(0, 9)), max_size=4) | hostile_json,
                "weight_versions": st.none() | hostile_json,
                "weight_version": hostile_json,
                "num_retractions": hostile_json,
                "cached_tokens": hostile_json,
            },
        ),
    },
)


@given(st.lists(events, max_size=4))
@settings(deadline=None, max_examples=300)
def test_whatever_an_engine_says_the_arrays_stay_aligned_or_it_is_an_engine_error(stream):
    reader = GenerationReader(KnownVersions(launched=0, current=0))
    for event in stream:
        try:
            chunk = reader.read(event)
        except EngineError:
            return
        lengths = {len(chunk.token_ids), len(chunk.logprobs), len(chunk.weight_versions), len(chunk.kv_versions)}
        assert len(lengths) == 1
        assert not np.isinf(chunk.logprobs).any()
        assert (chunk.weight_versions >= 0).all()


@pytest.mark.parametrize(
    ("value", "version"),
    [(7, 7), ("7", 7), ("default", 3), (None, 5), (-1, 3), ("-1", 3), (True, 3), (7.0, 3), ("", 3), (0, 0), ("0", 0)],
)
def test_a_version_is_our_number_or_that_of_the_launch_and_without_a_report_the_one_we_loaded(value, version):
    assert KnownVersions(launched=3, current=5).parse(value) == version


def test_tokens_across_a_swap_count_as_the_older_weights():
    chunks = read_all(
        [a_stream_event([5], total=1, version="7"), a_stream_event([6, 7], total=3, version="8"),
         a_stream_event([8], total=4, version="8", finish="stop")], version=7
    )  # fmt: skip
    assert joined(chunks, "weight_versions") == [7, 7, 7, 8]
    assert joined(chunks, "kv_versions") == [7, 7, 7, 7]
    assert chunks[-1].generation_versions is None


def test_spans_at_the_end_say_which_weights_made_each_token():
    ids = list(range(128))
    last = a_stream_event(ids, total=128, version="8", finish="stop", spans=[(7, 0, 57), (8, 57, 128)])
    first, end = read_all([a_stream_event(ids[:100], total=100, version="7"), last], version=7)
    assert set(first.weight_versions.tolist()) == {7}
    assert end.generation_versions.tolist() == [7] * 57 + [8] * 71
    assert end.generation_kv_versions.tolist() == [7] * 128
    assert end.weight_versions.tolist() == [8] * 28


@pytest.mark.parametrize(
    "spans",
    [
        [(7, 0, 57), (8, 58, 128)],
        [(7, 0, 57), (8, 56, 128)],
        [(7, 0, 57), (8, 57, 127)],
        [(7, 0, 57), (8, 57, 129)],
        [(7, 1, 128)],
        [(8, 57, 128), (7, 0, 57)],
        [(7, 0, None)],
        [(7, 57, 0)],
    ],
)
def test_spans_with_a_gap_an_overlap_or_a_short_end_are_refused(spans):
    with pytest.raises(EngineProtocolError, match="weight version spans"):
        read_all([a_stream_event(list(range(128)), finish="stop", spans=spans)])


def test_a_request_sent_before_a_swap_attends_to_what_the_older_weights_prefilled():
    first = a_stream_event([5, 6], total=2, version="7")
    last = a_stream_event([8], total=3, version="7", finish="stop", spans=[(7, 0, 3)])
    chunk, end = read_all([first, last], version=6)
    assert chunk.weight_versions.tolist() == [6, 6]
    assert chunk.kv_versions.tolist() == [6, 6]
    assert end.generation_versions.tolist() == [7, 7, 7]
    assert end.generation_kv_versions.tolist() == [6, 6, 6]


@pytest.mark.parametrize("report", ["default", "0", 0])
def test_a_server_that_is_back_at_the_weights_of_its_launch_was_restarted(report):
    event = a_stream_event([5], total=1, version=report, finish="stop")
    with pytest.raises(EngineRestarted):
        GenerationReader(KnownVersions(launched=0, current=5)).read(event)
    chunk = GenerationReader(KnownVersions(launched=0, current=0)).read(event)
    assert chunk.weight_versions.tolist() == chunk.kv_versions.tolist() == [0]


@pytest.mark.parametrize(
    "events",
    [
        [a_stream_event([23], total=None), a_stream_event([23], total=None)],
        [a_stream_event([23, 24, 25], total=3), a_stream_event([99, 98], total=2, finish="stop")],
        [a_stream_event([23, 24], total=2), a_stream_event([99], total=2, finish="stop")],
    ],
    ids=["may be new or the same again", "counts fewer than it gave", "gives ids that it does not count"],
)
def test_a_stream_that_contradicts_itself_or_cannot_be_read_surely_is_refused(events):
    with pytest.raises(EngineProtocolError):
        read_all(events)


def test_a_stream_without_counts_keeps_the_form_that_it_has_shown():
    parts = [[23], [24], [23, 24], [5]]
    chunks = read_all([a_stream_event(ids, total=None) for ids in parts])
    assert joined(chunks, "token_ids") == [23, 24, 23, 24, 5]
    cumulative = [a_stream_event(ids, total=None) for ids in ([23], [23, 23], [23, 23])]
    assert joined(read_all(cumulative), "token_ids") == [23, 23]


@pytest.mark.parametrize("value", [10**30, -1, "7", None, 1.5])
def test_a_count_that_cannot_be_one_spoils_nothing(value):
    event = a_stream_event([5], total=1, finish="stop")
    event["meta_info"]["cached_tokens"] = value
    assert read_all([event])[0].cached_tokens == 0
