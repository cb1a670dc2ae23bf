"""The file system of this machine, as the log needs it, and what it says as errors of ours."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from midstream.errors import OutOfResources, StorageError
from midstream.log.files import LocalFiles, disk_errors


class NotingFiles(LocalFiles):
    """Notes the folders whose names it brings to the disk."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        self.synced.append(path)


def test_a_new_folder_is_on_the_disk_with_those_above_it(tmp_path: Path) -> None:
    files, folder = NotingFiles(), f"{tmp_path}/a/b"
    files.make_folder(folder)
    files.make_folder(folder)
    assert files.synced == [str(tmp_path), f"{tmp_path}/a"]
    assert Path(folder).is_dir()


def test_files_and_folders_are_removed_whole(tmp_path: Path) -> None:
    files = LocalFiles()
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "a/file").write_text("x")
    files.remove(f"{tmp_path}/a/file")
    files.remove(f"{tmp_path}/a/file")
    assert files.names(f"{tmp_path}/a") == ["b"]
    files.remove(f"{tmp_path}/a")
    assert files.names(f"{tmp_path}/a") == [] and not (tmp_path / "a").exists()


def test_a_file_is_written_on_at_its_end(tmp_path: Path) -> None:
    files, path = LocalFiles(), f"{tmp_path}/file"
    file = files.create(path)
    assert file.write(b"abc") == 3 and file.write(pa.py_buffer(b"defg")) == 4
    file.truncate(5)
    assert file.write(memoryview(b"xy")) == 2
    file.sync()
    file.close()
    again = files.reopen(path)
    again.write(b"!")
    again.close()
    files.sync_file(path)
    assert files.read(path) == b"abcdexy!"
    files.create(path).close()
    assert files.read(path) == b""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_and_a_full_quota_are_one_error(number: int) -> None:
    with pytest.raises(OutOfResources) as refused, disk_errors("the rows could not be written"):
        raise OSError(number, "no room")
    assert refused.value.message == "the disk is full: the rows could not be written"
    assert refused.value.sqlstate == "53100"


def test_what_else_a_file_system_says_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as refused, disk_errors("the log could not be read"):
        LocalFiles().read(f"{tmp_path}/nowhere")
    assert refused.value.message == "the log could not be read"
    assert "nowhere" in str(refused.value.detail)
