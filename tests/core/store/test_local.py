"""What is peculiar to a folder of the file system as a store; the rest is in the contract."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakegc_core.errors import StoreError
from tests.core.store.conftest import local


def test_a_missing_folder_is_not_an_empty_one(tmp_path: Path) -> None:
    place = local(tmp_path / "nowhere")
    for ask in (place.addresses, lambda: list(place.store.list_level()), place.store.probe):
        with pytest.raises(StoreError, match="no such folder"):
            ask()


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd", "a\0b", "a//b", "./a", "a/", "\udcff"])
def test_keys_that_name_another_place_are_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "x").write_bytes(b"not ours")
    place = local(tmp_path / "root")
    for ask in (place.store.read, place.store.head, lambda key: place.store.write(key, b"")):
        with pytest.raises(StoreError):
            ask(key)
    assert place.store.delete_many([key]) == ["failed:InvalidKey"]
    assert (tmp_path / "x").exists()


def test_links_are_neither_listed_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"not ours")
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "file").symlink_to(tmp_path / "outside" / "x")
    place = local(tmp_path / "root")
    assert place.addresses() == place.addresses("folder/") == []
    assert place.store.delete_many(["folder/x", "file"]) == ["failed:InvalidKey", "failed:ELOOP"]
    with pytest.raises(StoreError):
        place.store.read("folder/x")
    with pytest.raises(StoreError):
        place.store.read("file")
    assert (tmp_path / "outside" / "x").exists()


def test_a_file_that_vanishes_while_it_is_written_is_laid_to_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cleaned(written: str, path: str) -> None:
        Path(os.fsdecode(written)).unlink()
        replace(written, path)

    replace = os.replace
    monkeypatch.setattr(os, "replace", cleaned)
    with pytest.raises(StoreError, match="'a/b' is gone: another process removed it"):
        local(tmp_path).store.write("a/b", b"1")


def test_a_place_where_no_folder_can_be_made_is_no_missing_object(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root, says in (
        (tmp_path / "file", f"{tmp_path}/file is a file, not a folder"),
        (tmp_path / "file" / "below", f"{tmp_path}/file is a file, not a folder"),
        (Path("/proc/lakegc"), "no folder can be made in /proc"),
    ):
        with pytest.raises(StoreError) as caught:
            local(root).store.write("a/b", b"1")
        assert type(caught.value) is StoreError
        expected = f"local://{root} cannot be written to: {says}. Name a folder that can be written to."
        assert str(caught.value) == expected


def test_a_copy_to_a_place_where_no_folder_can_be_made_does_not_take_the_source_for_gone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    source = local(tmp_path / "source")
    source.fill(["data/a"])
    with pytest.raises(StoreError, match="cannot be written to") as caught:
        local(tmp_path / "file").store.copy(source.config, "data/a", "data/a")
    assert type(caught.value) is StoreError


def test_one_key_that_cannot_be_deleted_does_not_stop_the_others(tmp_path: Path) -> None:
    place = local(tmp_path)
    place.fill(["data/folder/x", "data/a", "data/b"])
    keys = ["data/a", "data/folder", "data/a/below", "data/b"]
    assert place.store.delete_many(keys) == ["deleted", "failed:EISDIR", "already_gone", "deleted"]
    assert place.addresses() == ["data/folder/x"] and (tmp_path / "data").is_dir()


def test_names_that_are_not_text_are_shown_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / os.fsdecode(b"bad\xff")).touch()
    place = local(tmp_path)
    assert place.addresses() == ["data/bad\\xff"]
    assert place.store.delete_many(["data/bad\\xff"]) == ["already_gone"]
    assert place.addresses() == ["data/bad\\xff"]


def test_files_of_a_write_under_way_are_no_objects(tmp_path: Path) -> None:
    place = local(tmp_path)
    etag = place.store.write("data/a", b"1")
    place.store.write("data/a", b"2", if_match=etag)  # leaves its lock file
    (tmp_path / "data" / ".lakegc-0123").write_bytes(b"half")
    assert place.addresses() == ["data/a"]
    assert place.store.delete_many(["data/.lakegc-0123"]) == ["failed:InvalidKey"]


def test_a_write_removes_what_a_killed_one_left_beside_it_and_no_file_of_a_write_under_way(tmp_path: Path) -> None:
    store, names = local(tmp_path).store, [f".lakegc-{digit * 32}" for digit in "ab"]
    for name in (*names, ".lakegc-lock", "data"):
        (tmp_path / name).write_bytes(b"half")
    left = (tmp_path / names[0]).stat().st_mtime - 3700
    for name in (names[0], ".lakegc-lock", "data"):
        os.utime(tmp_path / name, (left, left))
    store.write("a", b"1")
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([names[1], ".lakegc-lock", "a", "data"])


def test_empty_folders_are_removed_and_what_holds_a_file_or_lies_behind_a_link_stays(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in ("gone/a/b", "stays/empty", "stays/full", "beside"):
        (root / folder).mkdir(parents=True)
    (root / "stays/full/x").touch()
    (tmp_path / "outside").mkdir()
    (root / "stays/link").symlink_to(tmp_path / "outside")
    store = local(root).store
    for prefix in ("gone/", "stays/", "stays/link/", "nowhere/"):
        store.remove_empty_folders(prefix)
    assert sorted(each.name for each in root.iterdir()) == ["beside", "stays"]
    assert sorted(each.name for each in (root / "stays").iterdir()) == ["full", "link"]
    assert (tmp_path / "outside").is_dir()


def test_a_folder_that_holds_only_the_lock_of_its_writers_is_empty(tmp_path: Path) -> None:
    store = local(tmp_path).store
    for key in ("a/b/gone", "a/stays"):
        etag = store.write(key, b"1")
        store.write(key, b"2", if_match=etag)
    store.delete_many(["a/b/gone"])
    store.remove_empty_folders("a/")
    assert not (tmp_path / "a/b").exists()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [".lakegc-lock", "stays"]


def test_what_a_killed_writer_left_keeps_no_folder_once_nobody_can_write_it_any_more(tmp_path: Path) -> None:
    store, left = local(tmp_path).store, tmp_path / "quarantine" / "data" / (".lakegc-" + "a" * 32)
    store.write("quarantine/data/a", b"")
    left.write_bytes(b"half of an object")
    store.delete_many(["quarantine/data/a"])
    store.remove_empty_folders("quarantine/")
    assert left.exists(), "somebody may be writing it"
    os.utime(left, (time.time() - 3700,) * 2)
    store.remove_empty_folders("quarantine/")
    assert list(tmp_path.iterdir()) == []
