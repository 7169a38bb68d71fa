"""Text of growing ids: no broken character at the border of chunks, none lost at the end (case B48)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.tokenization.incremental import IncrementalDecoder
from tests.builders import ByteTokenizer, WordTokenizer
from tests.strategies import hostile_text

BROKEN = "\ufffd"
REPORTED = "삼겹살 😊"


def pushed(tokenizer, chunks):
    decoder = IncrementalDecoder(tokenizer)
    return [*(decoder.push(chunk) for chunk in chunks), decoder.flush()]


def test_korean_and_an_emoji_byte_by_byte():
    data = REPORTED.encode()
    texts = pushed(ByteTokenizer(), [[byte] for byte in data])
    assert "".join(texts) == REPORTED
    assert [text for text in texts if text] == list(REPORTED)
    assert texts[-1] == ""


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_character_that_never_came_whole_is_one_replacement_at_the_end(kept):
    data = REPORTED.encode()[: len("삼겹살 ".encode()) + kept]
    texts = pushed(ByteTokenizer(), [[byte] for byte in data])
    assert "".join(texts) == "삼겹살 " + BROKEN
    assert texts[-1] == BROKEN
    assert BROKEN not in "".join(texts[:-1])


@given(hostile_text, st.data())
@settings(deadline=None, max_examples=200)
def test_any_text_in_any_chunks_is_the_text(text, data):
    ids = list(text.encode())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=8)))
    chunks = [ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    texts = pushed(ByteTokenizer(), chunks)
    assert "".join(texts) == text
    assert "".join(texts).count(BROKEN) == text.count(BROKEN)


@given(st.lists(st.sampled_from([*"a삼😊é".encode(), 0x80, 0xFF, 0xF0]), max_size=30), st.data())
@settings(deadline=None, max_examples=300)
def test_broken_bytes_give_what_they_give_when_decoded_at_once(ids, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=8)))
    chunks = [ids[start:end] for start, end in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    assert "".join(pushed(ByteTokenizer(), chunks)) == bytes(ids).decode(errors="replace")


def test_a_character_cut_after_a_run_of_broken_bytes_is_not_lost():
    broken, character = [0xEC] * 12, list("삼".encode())
    assert "".join(pushed(ByteTokenizer(), [broken + character[:2], character[2:]])) == BROKEN * 12 + "삼"


@given(st.lists(st.integers(128, 191), min_size=9, max_size=40))
@settings(deadline=None, max_examples=30)
def test_bytes_that_will_never_be_a_character_are_not_held_for_ever(broken):
    decoder = IncrementalDecoder(ByteTokenizer())
    seen = ""
    for index, byte in enumerate(broken):
        seen += decoder.push([byte])
        assert len(seen) >= index - 8
    assert seen + decoder.flush() == BROKEN * len(broken)
    assert decoder.push(list(b"abc")) == "abc"


def test_words_keep_the_space_that_a_tokenizer_drops_at_the_start():
    assert "".join(pushed(WordTokenizer(), [[1], [2], [], [3, 1]])) == "one two three one"


def test_no_ids_are_no_text():
    assert pushed(ByteTokenizer(), []) == [""]
    assert pushed(ByteTokenizer(), [[], []]) == ["", "", ""]


def test_a_flush_gives_what_is_left_once():
    decoder = IncrementalDecoder(ByteTokenizer())
    assert decoder.push([0xF0, 0x9F]) == ""
    assert [decoder.flush(), decoder.flush()] == [BROKEN, ""]
