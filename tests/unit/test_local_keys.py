"""Where the SDK finds a service and its key: given, then the environment, then what a service left."""

import pytest

from rollway.local_keys import DEFAULT_URL, find_key, find_url, key_file, store_key

URL = "http://127.0.0.1:9000"


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROLLWAY_URL", raising=False)
    monkeypatch.delenv("ROLLWAY_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("given", "environment", "found"),
    [
        (None, None, DEFAULT_URL),
        (None, "http://there:1/", "http://there:1"),
        (f"{URL}/", "http://there:1", URL),
        (URL, None, URL),
        ("", "http://there:1", "http://there:1"),
    ],
)
def test_the_service_is_where_it_was_said_to_be(monkeypatch, given, environment, found):
    if environment is not None:
        monkeypatch.setenv("ROLLWAY_URL", environment)
    assert find_url(given) == found


@pytest.mark.parametrize(
    ("given", "environment", "stored", "found"),
    [
        ("a", "b", "c", "a"),
        (None, "b", "c", "b"),
        (None, None, "c", "c"),
        (None, None, None, None),
        ("a", None, None, "a"),
    ],
)
def test_the_nearest_key_counts(monkeypatch, given, environment, stored, found):
    if environment is not None:
        monkeypatch.setenv("ROLLWAY_API_KEY", environment)
    if stored is not None:
        store_key(URL, stored)
    assert find_key(URL, given) == found


def test_keys_are_kept_per_service_and_for_the_owner_alone():
    store_key(URL, "one")
    store_key("http://other:1", "two")
    store_key(URL, "three")
    assert (find_key(URL, None), find_key("http://other:1", None)) == ("three", "two")
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key_file().parent.iterdir()] == [key_file().name]


@pytest.mark.parametrize("content", [b"", b"{not json", b"[1, 2]", b"null", b"\xff\xfe"])
def test_a_broken_file_is_no_key_and_is_replaced(content):
    key_file().parent.mkdir(parents=True)
    key_file().write_bytes(content)
    assert find_key(URL, None) is None
    store_key(URL, "fresh")
    assert find_key(URL, None) == "fresh"
