"""Where the SDK finds a service and its key when nobody says: the environment, or what `rollway up` left."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import orjson

from rollway.errors import RollwayError

DEFAULT_URL = "http://127.0.0.1:8080"
_ENV_URL = "ROLLWAY_URL"
_ENV_KEY = "ROLLWAY_API_KEY"


def key_file() -> Path:
    """Keys of services on this machine by their URL; readable by its owner alone."""
    return Path.home() / ".rollway" / "keys.json"


def _stored() -> dict[str, str]:
    try:
        found = orjson.loads(key_file().read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def find_url(given: str | None) -> str:
    return (given or os.environ.get(_ENV_URL) or DEFAULT_URL).rstrip("/")


def find_key(url: str, given: str | None) -> str | None:
    return given or os.environ.get(_ENV_KEY) or _stored().get(url)


def checked_url(url: str) -> str:
    """The URL, if requests can be sent there. Raises RollwayError."""
    try:
        parsed = httpx.URL(url)
        is_usable = parsed.scheme in {"http", "https", "grpc", "grpcs"} and bool(parsed.host)
        if is_usable and parsed.scheme.startswith("grpc"):
            is_usable = parsed.port is not None
    except (httpx.InvalidURL, UnicodeError):
        is_usable = False
    if not is_usable:
        raise RollwayError(f"{url!r} is no URL of a service; one looks like {DEFAULT_URL} or grpc://127.0.0.1:8081")
    return url


def checked_key(key: str | None) -> str | None:
    """The key, if it can be sent in a header. Raises RollwayError, which does not repeat it."""
    if key is not None and not (key.isascii() and key.isprintable()):
        raise RollwayError(f"the API key ({_ENV_KEY}, or the api_key that was given) holds characters that no key has")
    return key


def store_key(url: str, key: str) -> None:
    """Remember the key of a service on this machine."""
    path = key_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    keys = _stored() | {url: key}
    replacement = path.with_suffix(f".{os.getpid()}")
    descriptor = os.open(replacement, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(keys, option=orjson.OPT_INDENT_2))
    replacement.replace(path)
