"""Digests: the same files the same digest, any change of what they mean another one."""

import hashlib
import json

import pytest

from rollway.digests import digest_bytes, digest_file, template_digest, tokenizer_digest, weights_digest


def test_a_digest_names_its_algorithm(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    assert digest_bytes(b"abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    assert digest_file(path) == digest_bytes(b"x" * 3_000_000)


def test_a_tokenizer_is_its_files_and_nothing_else(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "merges.txt").write_text("a b")
    first = tokenizer_digest(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert tokenizer_digest(str(tmp_path)) == first
    (tmp_path / "merges.txt").write_text("a c")
    assert tokenizer_digest(tmp_path) != first


def test_contents_that_change_places_are_another_digest(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, contents in ((one, (b"a", b"b")), (two, (b"b", b"a"))):
        folder.mkdir()
        for index, content in enumerate(contents):
            (folder / f"model-{index}.safetensors").write_bytes(content)
    assert weights_digest(one) != weights_digest(two)
    (two / "model-0.safetensors").write_bytes(b"a")
    (two / "model-1.safetensors").write_bytes(b"b")
    assert weights_digest(one) == weights_digest(two)


@pytest.mark.parametrize("digest", [tokenizer_digest, weights_digest])
def test_a_folder_without_the_files_has_no_digest(tmp_path, digest):
    with pytest.raises(FileNotFoundError, match="holds no"):
        digest(tmp_path)


def test_the_template_is_its_text_wherever_it_stands(tmp_path):
    assert template_digest(tmp_path) is None
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    in_config = template_digest(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    assert template_digest(tmp_path) == in_config == digest_bytes(b"{{ messages }}")
    (tmp_path / "chat_template.jinja").write_text("{{ other }}")
    assert template_digest(tmp_path) != in_config


@pytest.mark.parametrize("template", [None, [{"name": "default", "template": "x"}]])
def test_a_template_that_is_no_text_has_no_digest(tmp_path, template):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    assert template_digest(tmp_path) is None


def test_a_file_of_another_name_is_another_digest(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    first = tokenizer_digest(tmp_path)
    (tmp_path / "vocab.json").rename(tmp_path / "tokenizer.json")
    assert tokenizer_digest(tmp_path) != first
