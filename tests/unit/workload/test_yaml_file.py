import builtins

import pytest

from glowplug.core.document import Flaw
from glowplug.errors import SpecError, ToolMissingError
from glowplug.workload.yaml_file import MAX_FILE_BYTES, read_yaml


def read(folder, content, name="x.yaml"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_yaml(path)


def error_of(folder, content):
    with pytest.raises(SpecError) as caught:
        read(folder, content)
    return str(caught.value).replace(f"{folder}/", "")


def test_values_come_with_their_lines_and_spelling(tmp_path):
    document = read(tmp_path, 'a: 1.10\nb:\n  - {c: "1.10"}\n  - yes\nd: &x {e: 1}\nf: *x\n')
    assert document.name == str(tmp_path / "x.yaml")
    assert document.values == {"a": 1.1, "b": [{"c": "1.10"}, True], "d": {"e": 1}, "f": {"e": 1}}
    assert document.lines == {
        "a": 1, "b": 2, "b[0]": 3, "b[0].c": 3, "b[1]": 4, "d": 5, "d.e": 5, "f": 6, "f.e": 5,
    }  # fmt: skip
    assert document.texts == {"a": "1.10", "b[1]": "yes", "d.e": "1", "f.e": "1"}
    assert document.flaws == []


@pytest.mark.parametrize("spelled", ["1e-3", "1E-3", "+1e-3", "1.0e-3", "0.001"])
def test_an_exponent_needs_no_dot(tmp_path, spelled):
    assert read(tmp_path, f"a: {spelled}").values == {"a": 0.001}


@pytest.mark.parametrize("spelled", ["1e", "e3", "1e3x", "0x1e-3", '"1e-3"'])
def test_text_that_is_no_exponent_stays_text(tmp_path, spelled):
    assert read(tmp_path, f"a: {spelled}").values == {"a": spelled.strip('"')}


def test_a_merge_key_is_no_duplicate(tmp_path):
    document = read(tmp_path, "base: &b {w: 1, h: 2}\nbig: {<<: *b, w: 8}\n")
    assert document.values["big"] == {"w": 8, "h": 2}
    assert document.flaws == []


def test_a_key_written_twice_is_a_flaw(tmp_path):
    document = read(tmp_path, "a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n")
    assert document.flaws == [Flaw("b.c", "is written twice, first on line 3", 5)]


def test_a_byte_order_mark_is_skipped(tmp_path):
    assert read(tmp_path, b"\xef\xbb\xbfa: 1").values == {"a": 1}


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "x.yaml is empty"),
        ("# nothing yet\n", "x.yaml is empty"),
        ("a:\n\tb: 1\n", "x.yaml:2:1: a tab cannot indent YAML; use spaces"),
        (
            "a: [1\nb: 2\n",
            "x.yaml:2:2: is not valid YAML: while parsing a flow sequence, expected ',' or ']', but got ':'",
        ),
        ("a: *b\n", "x.yaml:1:4: is not valid YAML: found undefined alias 'b'"),
        (
            "a: 1\n---\nb: 2\n",
            (
                "x.yaml:2:1: is not valid YAML: expected a single document in the stream, "
                "but found another document"
            ),
        ),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "x.yaml:1: carries the YAML tag !!python/object/apply:os.system; write it without",
        ),
        ("a:\n- !!bool x\n", "x.yaml:2: carries the YAML tag !!bool; write it without"),
        ("!!int x: 1\n", "x.yaml:1: carries the YAML tag !!int; write it without"),
        ("a: !!set {b}\n", "x.yaml:1: carries the YAML tag !!set; write it without"),
        ("? [a]\n: 1\n", "x.yaml:1: has a list or a mapping for a key"),
        ("a: 0x" + "f" * 4000, "x.yaml:1: holds a number of 4002 characters"),
        (b"a: 1\nb: \xff\n", "x.yaml:2: is not UTF-8 text"),
        (b"a: \x01\n", "x.yaml is not YAML: it holds a control character"),
        ('a: 1\nb: "\\0"\n', "x.yaml:2: holds a NUL or half of a surrogate pair"),
        ('"\\ud800": 1\n', "x.yaml:1: holds a NUL or half of a surrogate pair"),
        ("a: 2024-13-45\n", "x.yaml holds a value that YAML cannot read: month must be in 1..12"),
        ("a: &a [*a]\n", "x.yaml nests too deeply, or holds an alias to itself"),
        ("[" * 5000, "x.yaml nests too deeply, or holds an alias to itself"),
        (BOMB, "x.yaml holds more than 100000 values"),
        (MERGE_BOMB, "x.yaml holds more than 100000 values"),
        ("#" * (MAX_FILE_BYTES + 1), "x.yaml is larger than 1 MiB, which no file of this kind is"),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path, content, expected):
    assert error_of(tmp_path, content) == expected


def test_a_missing_file_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"^x\.yaml does not exist$") as caught:
        read_yaml(tmp_path.relative_to(tmp_path) / "x.yaml")
    assert caught.value.hint == f"it was looked for at {tmp_path}/x.yaml"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(SpecError, match=r"is a folder$"):
        read_yaml(tmp_path)


def test_an_unreadable_file_says_why(tmp_path):
    (tmp_path / "x.yaml").symlink_to("x.yaml")
    with pytest.raises(SpecError, match=r"x\.yaml cannot be read: Too many levels of symbolic links$"):
        read_yaml(tmp_path / "x.yaml")


def test_without_pyyaml_the_extra_is_named(tmp_path, monkeypatch):
    import_ = builtins.__import__

    def without_yaml(name, *args, **kwargs):
        if name == "yaml":
            raise ImportError(name)
        return import_(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_yaml)
    with pytest.raises(ToolMissingError, match="PyYAML is not installed") as caught:
        read(tmp_path, "a: 1")
    assert caught.value.hint == "pip install 'glowplug[build]'"
