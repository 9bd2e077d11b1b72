"""Mutants of the marks, of the listing, and of the deletes of the stores."""

from __future__ import annotations

from tests.support.mutant_list import of

_ARTIFACTS = "tests/core/marks/test_artifacts.py"
_COLLECTORS = "tests/core/whole/test_two_collectors.py"
_LEASE = "tests/core/marks/test_lease.py"
_PREVIOUS = "tests/core/marks/test_previous.py"
_LAYERS = "tests/core/marks/test_layers.py"
_GCS_DELETES = "tests/core/store/test_gcs_deletes.py"
_AZURE = "tests/core/store/test_azure.py"
_LOCAL = "tests/core/store/test_local.py"
_PACE = "tests/core/store/test_pace.py"
_S3_DELETES = "tests/core/store/test_s3_deletes.py"

MARKS = (
    *of(
        "lakegc_core/marks/lease.py",
        _LEASE,
        (
            "a collector of another user is taken for dead",
            "except OSError:\n            return False  # it is there",
            "except OSError:\n            return True  # it is there",
        ),
        (
            "a lease that was not renewed in time still counts",
            "if self._lost is None and clock.now().timestamp() >= self._expires_at:",
            "if self._lost is None and not self._expires_at:",
        ),
        (
            "a process of another container is taken for dead",
            'return "" not in mine and (self.host, self.boot, self.processes) == mine and self._has_ended()',
            'return "" not in mine and (self.host, self.boot) == mine[:2] and self._has_ended()',
        ),
    ),
    *of(
        "lakegc_core/marks/lease.py",
        "tests/core/sweep/test_deletion.py -k outlives",
        (
            "the proof stands whoever holds the lease",
            'return bool(found["owner"] == self.owner and found["expires_at"])',
            'return bool(found["expires_at"])',
        ),
    ),
    *of(
        "lakegc_core/marks/lease.py",
        f"{_COLLECTORS} -k slept",
        (
            "a lease that somebody else took is taken for one's own",
            "if etag is None or not ours:",
            "if etag is None:",
        ),
    ),
    *of(
        "lakegc_core/marks/layers.py",
        _LAYERS,
        (
            "a part that is shorter than it was is rested on",
            'if lying.get(f"{folder}/{part.name}") != part.bytes:',
            'if f"{folder}/{part.name}" not in lying:',
        ),
        (
            "what was restored since the mark below is not listed",
            "last is not None and last.at >= moment - APART",
            "last is not None and last.at < moment - APART",
        ),
    ),
    *of(
        "lakegc_core/marks/previous.py",
        _PREVIOUS,
        (
            "a mark that broke off found nothing live",
            "if each.asked_until < read:",
            "if each.asked_until < read or each.is_unfinished:",
        ),
        (
            "a damaged mark in between found nothing live",
            "if each.asked_until < read:",
            "if each.asked_until < read or each.fault:",
        ),
        (
            "a mark that missed heads makes the next one forget them",
            "            and not each.mark.facts(CommitsFacts).former_heads_unknown\n",
            "",
        ),
        (
            "a damaged mark after this one found nothing live",
            "for each in later if each is not newest))",
            "for each in later if each is not newest and each.is_unfinished))",
        ),
        (
            "findings of another server's allow-list are carried on",
            "        header.storage_namespace,\n        header.allow_list,\n",
            "        header.storage_namespace,\n",
        ),
    ),
    *of(
        "lakegc_core/marks/shelf.py",
        "tests/core/whole/test_wrong_clocks.py -k passes_no_age_on",
        ("a mark of a clock that was behind passes its ages on", "if abs(skew) > limit:", "if skew < -limit:"),
    ),
    *of(
        "lakegc_core/marks/json_files.py",
        "tests/core/marks/test_json_files.py",
        (
            "a sealed artifact that was changed is believed",
            'if value.get("digest") != digest(rest) or any(',
            "if any(",
        ),
    ),
    *of(
        "lakegc_core/marks/artifacts.py",
        _ARTIFACTS,
        (
            "a manifest that was changed is believed",
            "if digest(_unsealed(manifest)) != manifest.digest:",
            "if not manifest.digest:",
        ),
        (
            "a manifest of another input continues the chain",
            "self.check_upstream(manifest, before)",
            "self.check_upstream(manifest, manifest.upstream)",
        ),
        (
            "the manifest of another mark is believed",
            "if (manifest.stage, manifest.mark_id) != (stage, self.mark_id):",
            "if manifest.stage != stage:",
        ),
        (
            "two collectors finish one stage",
            "self.store.write(key, encode(value), if_absent=True)",
            "self.store.write(key, encode(value))",
        ),
    ),
)

LISTING = (
    *of(
        "lakegc_core/inventory/carried.py",
        "tests/core/inventory/test_carried.py",
        (
            "a slice is taken over though objects still appear in it",
            'row["listed_at"] >= wanted[row["unit"]] + window',
            'row["listed_at"] >= wanted[row["unit"]]',
        ),
        (
            "a unit is taken over of a mark that is no layer",
            'if row["unit"] in wanted and row["listed_in"] in known and',
            'if row["unit"] in wanted and',
        ),
    ),
    *of(
        "lakegc_core/inventory/listing.py",
        "tests/core/inventory/test_listing.py",
        (
            "any folder passes for lakeFS's metadata",
            "found_metadata = found_metadata or any(self._has_files(store, prefix) for prefix in self.metadata)",
            "found_metadata = found_metadata or bool(folders)",
        ),
        (
            "a short list of repositories is believed",
            "if context.header.repository not in {name for name, _ in every}:",
            "if not every:",
        ),
        ("somebody else's file is lakeFS's", "units, pc.invert(allowed)]", "units, pc.xor(allowed, allowed)]"),
    ),
    *of(
        "lakegc_core/inventory/shards.py",
        "tests/core/inventory/test_shards.py",
        ("folders of a shard that are no slices are not listed", "others.append(below)", "others.clear()"),
    ),
)

STORES = (
    *of(
        "lakegc_core/store/delete_results.py",
        _S3_DELETES,
        (
            "keys that S3 names as failed count as deleted",
            "told(code) if code else _DELETED)",
            "_DELETED)",
        ),
        (
            "keys that a DeleteResult does not name count as deleted",
            "DeleteAnswer.unnamed() if code is None else",
            "_DELETED if code is None else",
        ),
        (
            "a key that is named twice, in two ways, is what comes first",
            "return {name: said for name, said in found.items() if name not in twofold}",
            "return found",
        ),
        (
            "any success says that one key was deleted",
            "return status in (200, 204) and not body.strip()",
            "return True",
        ),
    ),
    *of(
        "lakegc_core/store/s3/versions.py",
        f"{_S3_DELETES} -k version",
        (
            "what a list of versions lacks counts as gone though the store shows it",
            'return DeleteAnswer.failed("NoVersions")',
            "return DeleteAnswer(Outcome.ALREADY_GONE)",
        ),
        (
            "only delete markers go, and the bytes stay",
            "every = (*reversed(listed.versions), *listed.markers)",
            "every = listed.markers",
        ),
    ),
    *of(
        "lakegc_core/store/s3/undelete.py",
        "tests/core/store/test_s3_undelete.py",
        (
            "a delete marker without an id is removed by the id that S3 gives to what has none",
            'not each.get("VersionId") or each["VersionId"] in ids',
            "each is None",
        ),
    ),
    *of(
        "lakegc_core/store/kept.py",
        "tests/core/store/test_s3_undelete.py",
        (
            "a delete that somebody else made is taken back",
            "if not deleted.since <= at <= deleted.until:",
            "if at < deleted.since and at > deleted.until:",
        ),
        (
            "what somebody wrote since the sweep, and deleted, is shown again",
            "if size != deleted.size or written >= deleted.written_before:",
            "if size != deleted.size:",
        ),
    ),
    *of(
        "lakegc_core/store/azure/deletes.py",
        _AZURE,
        (
            "blobs of a container that is not there are gone",
            "if status == 404 and code in ABSENT:",
            "if status == 404:",
        ),
        (
            "of two answers about one blob the last one counts",
            "if place in found or place >= count:",
            "if place >= count:",
        ),
    ),
    *of(
        "lakegc_core/store/azure/deletes.py",
        f"{_AZURE} -k missing_from_the_batch",
        (
            "a blob whose answer is missing is deleted",
            "return DeleteAnswer.unnamed() if failure is None or _is_success(failure)",
            "return DeleteAnswer(Outcome.DELETED) if failure is None or _is_success(failure)",
        ),
    ),
    *of(
        "lakegc_core/store/gcs/deletes.py",
        _GCS_DELETES,
        (
            "a name goes together with others though XML may change it",
            "not name.isprintable() or name != name.strip()",
            "not name.isprintable()",
        ),
        (
            "marks of XML in a name change the request",
            "<Key>{escape(name)}</Key>",
            "<Key>{name}</Key>",
        ),
        (
            "what GCS refuses to delete together is not asked for alone",
            "if said.again:\n            return said",
            "if said:\n            return said",
        ),
        (
            "GCS is asked again and again for what it refuses",
            "self._takes_batches = self._takes_batches or False",
            "self._takes_batches = self._takes_batches or None",
        ),
        (
            "one refusal ends all requests for many",
            "self._takes_batches = self._takes_batches or False",
            "self._takes_batches = False",
        ),
        (
            "a generation that GCS tells makes its answer none",
            "page, versions=False)",
            "page, versions=True)",
        ),
        (
            "objects of a bucket that is not there are gone",
            'DeleteAnswer.failed("NoSuchBucket") if no_bucket else',
            "DeleteAnswer(Outcome.ALREADY_GONE) if no_bucket else",
        ),
    ),
    *of(
        "lakegc_core/store/local/store.py",
        _LOCAL,
        ("a link is deleted like a file", "if stat.S_ISLNK(mode):", "if stat.S_ISSOCK(mode):"),
    ),
    *of(
        "lakegc_core/store/local/files.py",
        _LOCAL,
        (
            "links on the way to a file are followed",
            "return os.path.realpath(path) != path",
            "return not os.path.realpath(path)",
        ),
        (
            "a link is read as the file behind it",
            "os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC",
            "os.O_RDONLY | os.O_CLOEXEC",
        ),
    ),
    *of(
        "lakegc_core/store/pace.py",
        _PACE,
        (
            "the ceiling of deletes a second holds nothing back",
            "self._free_at = start + objects / self._rate",
            "self._free_at = start",
        ),
        (
            "more requests are in flight than there is room for",
            "self._in_flight < int(self.window.limit)",
            "self._in_flight <= int(self.window.limit)",
        ),
    ),
    *of(
        "lakegc_core/store/repeated_deletes.py",
        _PACE,
        (
            "requests are sent through a gate that is shut",
            "if not gate.opens():\n                return outcomes",
            "gate.opens()",
        ),
        (
            "what a lost answer took counts as somebody else's",
            "return self.outcome == NO_ANSWER or (self.again and not self.throttled)",
            "return False",
        ),
        (
            "a throttled delete that was not sent again passes for failed",
            "if told[key].throttled:  # until",
            "if not told[key].throttled:  # until",
        ),
    ),
)
