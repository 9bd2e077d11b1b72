"""The dump of commits and refs is read whole, or not at all."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakegc_core.errors import CorruptFileError, IncompleteError, LakegcError
from lakegc_core.lakefs.files import graveler
from lakegc_core.marks.metadata_files import MetadataFiles
from lakegc_core.references.commits.dump_files import DumpFiles
from lakegc_core.store.local import LocalConfig
from tests.support.lake import NOW, lake


def test_a_file_of_the_dump_that_is_missing_cut_off_or_another_one_is_an_error(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        repository = served.create("lake")
        repository.upload("main", "a", b"1")
        commit = repository.commit("main", "a", date=NOW - timedelta(days=9))
        dump, metadata = served.client.dump("lake"), served.files("lake") / "_lakefs"
        files = DumpFiles(MetadataFiles(LocalConfig(str(served.files("lake"))), "_lakefs"))
        graph, unknown, _ = files.graph(dump.commits_metarange_id, {})
        assert commit.id in graph.commit_ids and not unknown
        with pytest.raises(IncompleteError, match="dump of all commits is empty"):
            files.graph(dump.tags_metarange_id, {})
        repository.upload("main", "later", b"1")
        repository.commit("main", "later")
        later = served.client.dump("lake").commits_metarange_id
        for other in (b"", *((metadata / each).read_bytes() for each in (dump.tags_metarange_id, later))):
            (metadata / dump.commits_metarange_id).write_bytes(other)
            with pytest.raises(LakegcError):
                files.graph(dump.commits_metarange_id, {})
        (metadata / dump.commits_metarange_id).unlink()
        with pytest.raises(LakegcError):
            files.graph(dump.commits_metarange_id, {})


def test_a_range_with_fewer_commits_than_its_metarange_says_is_an_error(tmp_path: Path) -> None:
    with lake(tmp_path) as served:
        served.create("lake")
        dump = served.client.dump("lake")
        files = DumpFiles(MetadataFiles(LocalConfig(str(served.files("lake"))), "_lakefs"))
        with pytest.raises(CorruptFileError, match="its metarange says"):
            files.tables(dump.commits_metarange_id, lambda data: graveler.read_commits(data).slice(1))
