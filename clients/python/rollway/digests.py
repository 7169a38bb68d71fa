"""Digests of the things that must not change unnoticed: tokenizers, chat templates, weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "added_tokens.json")
_CHUNK_BYTES = 1 << 20


def digest_bytes(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            sha.update(chunk)
    return "sha256:" + sha.hexdigest()


def _digest_files(files: list[Path]) -> str:
    lines = [f"{path.name} {digest_file(path)}" for path in sorted(files)]
    return digest_bytes("\n".join(lines).encode())


def tokenizer_digest(folder: str | Path) -> str:
    """Digest of the files that decide how text becomes ids.

    Raises:
        FileNotFoundError: the folder holds none of them.
    """
    files = [path for name in TOKENIZER_FILES if (path := Path(folder) / name).is_file()]
    if not files:
        raise FileNotFoundError(f"{folder} holds no tokenizer ({', '.join(TOKENIZER_FILES)})")
    return _digest_files(files)


def template_digest(folder: str | Path) -> str | None:
    """Digest of the chat template beside the tokenizer; None when there is none."""
    template = Path(folder) / "chat_template.jinja"
    if template.is_file():
        return digest_file(template)
    config = Path(folder) / "tokenizer_config.json"
    if config.is_file():
        found = orjson.loads(config.read_bytes())
        text = found.get("chat_template") if isinstance(found, dict) else None
        if isinstance(text, str):
            return digest_bytes(text.encode())
    return None


def weights_digest(folder: str | Path) -> str:
    """Digest of the safetensors files of a checkpoint folder.

    Raises:
        FileNotFoundError: the folder holds none.
    """
    files = list(Path(folder).glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no *.safetensors file")
    return _digest_files(files)
