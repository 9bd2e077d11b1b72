"""Mutants of what the stages decide: what counts, and what is expired."""

from __future__ import annotations

from tests.support.mutant_list import of

_JUDGING = "tests/core/judging"
_READ = "tests/core/references/ranges"
_SHOWN = "tests/core/references/shown"
_REUPLOADS = f"{_SHOWN}/test_reuploads.py::test"
_BEFORE = f"{_JUDGING}/test_swept_before.py::test"
_RACES = "tests/interleavings"

COMMITS = (
    *of(
        "lakegc_core/references/commits/commit_walk.py",
        "tests/core/references/commits/test_commit_walk.py",
        (
            "a branch that only the dump has does not count",
            '                    add(kind, ref["name"], ref["commit_id"])\n',
            "",
        ),
        (
            "a head of an unknown commit is passed over",
            "unknown.add(commit_id)\n            else:\n                named",
            "pass\n            else:\n                named",
        ),
        (
            "the server names another metarange than its dump and is believed",
            "elif metarange_id not in (None, metaranges[number]) and commit_id not in self.ignored:",
            "elif metarange_id is not None and not metaranges[number]:",
        ),
        ("a list of commits may end within a line", 'if not data.endswith(b"\\n"):', "if not data:"),
        (
            "an empty list of retained commits is believed",
            "if not found:\n        raise IncompleteError(\"lakeFS's list of retained",
            "if found is None:\n        raise IncompleteError(\"lakeFS's list of retained",
        ),
    ),
    *of(
        "lakegc_core/references/commits/commit_walk.py",
        f"{_RACES}/test_during_the_mark.py::test_a_commit_is_only_kept_by_a_tag",
        (
            "tags protect nothing though lakegc.yaml says so",
            "protected = tags if self.protect_tags else []",
            "protected: list[tuple[str, int]] = []",
        ),
    ),
    *of(
        "lakegc_core/references/commits/rules_memory.py",
        "tests/core/references/commits/test_rules_memory.py",
        (
            "only the rule in force counts",
            "zip(records, ends, strict=True) if end > since]",
            'zip(seen, ends, strict=True) if end == float("inf")]',
        ),
        (
            "a branch keeps the least that any rule of the week says",
            "branch_days={name: max(rules.days(name)",
            "branch_days={name: min(rules.days(name)",
        ),
        (
            "the week in which every commit counted is forgotten",
            "if rules is None:\n            return None",
            "if rules is None:\n            continue",
        ),
    ),
    *of(
        "lakegc_core/references/ranges/protected.py",
        f"{_READ}/test_protected.py",
        (
            "a second reading of an address protects nothing",
            "return rows.cast(pa.schema([*ENTRIES_SCHEMA, *extra]))",
            'return rows.filter(rows["exact"]).cast(pa.schema([*ENTRIES_SCHEMA, *extra]))',
        ),
    ),
    *of(
        "lakegc_core/references/ranges/range_counts.py",
        f"{_READ}/test_range_counts.py",
        (
            "fewer references than none pass",
            "odd = (references < 0) | (known",
            "odd = (known",
        ),
        (
            "a range is held still that no layer has read",
            "(known & nowhere)",
            "(known & False)",
        ),
    ),
    *of(
        "lakegc_core/references/ranges/lost_ranges.py",
        f"{_READ}/test_committed.py",
        (
            "a lost range that other commits have is passed over",
            'if numbers[each["range_id"]] == each["references"]]',
            'if numbers[each["range_id"]]]',
        ),
    ),
    *of(
        "lakegc_core/references/ranges/range_counts.py",
        "tests/core/marks/test_layers.py::test_a_mark_rests_on_those_before_it_and_finds_the_same_garbage",
        (
            "a range that one metarange holds is dropped",
            "is_gone = references == 0",
            "is_gone = references <= 1",
        ),
    ),
    *of(
        "lakegc_core/references/ranges/unknown_ranges.py",
        f"{_READ}/test_unknown_ranges.py",
        (
            "a look takes a commit for known if the mark knows any",
            "ids.filter(pc.invert(pc.is_in(ids, known.combine_chunks())))",
            "ids if not len(known) else ids.slice(0, 0)",
        ),
    ),
    *of(
        "lakegc_core/references/ranges/range_files.py",
        f"{_READ}/test_range_files.py",
        (
            "a range that is damaged holds nothing",
            "raise CorruptFileError(self._unreadable(kind, ids[0], error)) from None",
            "return",
        ),
    ),
)

EXPIRED = (
    *of(
        "lakegc_core/judging/reasons.py",
        f"{_JUDGING}/test_reasons.py",
        (
            "the cutoff admits objects of its own second",
            "pc.or_(pc.greater_equal(modified, instant(self.cutoff))",
            "pc.or_(pc.greater(modified, instant(self.cutoff))",
        ),
        (
            "a name that tells a young age keeps nothing",
            "pa.array(named >= self.cutoff)",
            "pa.array(named < 0)",
        ),
        (
            "a part of an upload that runs is garbage",
            "pc.and_(part, pc.greater_equal(modified, instant(self.part_cutoff)))",
            "pc.and_(part, pc.greater_equal(modified, instant(self.cutoff)))",
        ),
        (
            "an object without a time is garbage",
            "if any(column.null_count for _, column in kept_by):",
            "if all(column.null_count for _, column in kept_by):",
        ),
        (
            "what neighbours refer to is garbage",
            "LOOKED_UP = (Reason.STAGED, Reason.HELD, Reason.NEIGHBOUR)",
            "LOOKED_UP = (Reason.STAGED, Reason.HELD)",
        ),
    ),
    *of(
        "lakegc_core/judging/since.py",
        f"{_JUDGING}/test_since.py",
        (
            "a rescue interrupts nothing",
            'return _Series(known.filter(pc.fill_null(pc.less(at, _rescue_from(known["since"], read_at)), True)))',
            "return _Series(known)",
        ),
        (
            "an address lends its age to another one of its hash",
            "exact = same.to_numpy(zero_copy_only=False)",
            "exact = np.ones(len(rows), bool)",
        ),
        (
            "what a later mark found live may be swept at once",
            "later = pc.fill_null(later, pa.scalar(now, since.type))",
            "later = pc.coalesce(later, since)",
        ),
        (
            "a later mark that broke off found nothing live",
            "if later.others or read_at <= journal.unread_until:",
            "if read_at <= journal.unread_until:",
        ),
        (
            "what a look saw after the dump of a mark that is resumed interrupts nothing",
            "return pc.if_else(pc.less(since, began), since, began)",
            "return since",
        ),
    ),
    *of(
        "lakegc_core/judging/subtraction.py",
        f"{_JUDGING}/test_subtraction.py",
        (
            "an index that lacks addresses is compared with",
            "if index.rows != entries.rows:",
            "if index.rows > entries.rows:",
        ),
        (
            "what a name without a time refers to is never missing",
            "pa.array(~(named >= listed_from))",
            "pa.array(named < listed_from)",
        ),
    ),
    *of(
        "lakegc_core/judging/optimized.py",
        f"{_JUDGING}/test_optimized.py",
        (
            "what a range holds is judged like what nothing holds",
            '_LOOSE: lying.filter(pc.is_null(lying["range_id"])),',
            "_LOOSE: lying,",
        ),
    ),
    *of(
        "lakegc_core/store/head_requests.py",
        f"{_JUDGING}/test_optimized.py",
        ("a store that does not answer says that objects are gone", "return error", "return None"),
    ),
    *of(
        "lakegc_core/judging/address_rows.py",
        f"{_JUDGING}/test_address_rows.py",
        (
            "what ranges of the marks below hold is garbage",
            "in_range, gone = among(IN_RANGE, IN_RANGE_BEFORE), among(GONE_SINCE)",
            "in_range, gone = among(IN_RANGE), among(GONE_SINCE)",
        ),
        ("what a retained range holds is freed", "(kind == DROPPED_SINCE) & ~in_range &", "(kind == DROPPED_SINCE) &"),
    ),
    *of(
        "lakegc_core/judging/address_rows.py",
        f"{_JUDGING}/test_address_rows.py",
        (
            "what was missing before is not asked for again",
            "among(IN_RANGE_BEFORE, DROPPED_SINCE) & (kind != MISSED)",
            "among(IN_RANGE_BEFORE, DROPPED_SINCE)",
        ),
    ),
    *of(
        "lakegc_core/references/shown/classes.py",
        f"{_REUPLOADS}_a_class_for_which_no_budget_suffices_does_not_keep_the_others_waiting",
        (
            "candidates that are too dear to ask for are shown nowhere",
            "SIZES, partial(_waits, last, left_out))",
            "SIZES, partial(_waits, last, ()))",
        ),
    ),
    *of(
        "lakegc_core/references/shown/reuploads.py",
        f"{_REUPLOADS}_empty_objects_come_last",
        (
            "candidates that the budget does not suffice for are shown nowhere",
            "self._head_ranges.on_branches(affordable_places), waiting), proven)",
            "self._head_ranges.on_branches(affordable_places), None), proven)",
        ),
    ),
    *of(
        "lakegc_core/references/shown/alike.py",
        f"{_REUPLOADS}_what_a_branch_shows_over_an_imported_entry_is_kept_and_what_is_like_it_goes",
        (
            "an imported entry hides nothing",
            'classes.keys("size", by=_by_size), self.heads.outside)',
            'classes.keys("size", by=_by_size), None)',
        ),
    ),
    *of(
        "lakegc_core/references/shown/alike.py",
        f"{_REUPLOADS}_an_entry_that_claims_another_size_than_its_object_has_may_hide_any_candidate",
        (
            "an entry that claims another size than its object hides nothing",
            "return both(found, self._misstated()) if self.heads.misstated.rows else found",
            "return found",
        ),
    ),
    *of(
        "lakegc_core/references/shown/classes.py",
        f"{_SHOWN}/test_classes.py",
        (
            "what waited before comes last",
            "(_LONGEST - waited).astype(np.int64) * _TURN",
            "waited.astype(np.int64) * _TURN",
        ),
    ),
    *of(
        "lakegc_core/references/shown/asking.py",
        f"{_SHOWN}/test_asking.py",
        (
            "an encoded address is read in one way",
            "plain = pc.and_not(starts, pc.match_substring_regex(told, ODD_PATH))",
            "plain = starts",
        ),
        (
            "the first path of an interval is passed over",
            'return f"{text[:-1]}{chr(code)}\\U0010ffff"',
            "return text",
        ),
    ),
    *of(
        "lakegc_core/references/shown/asking.py",
        f"{_SHOWN}/test_asking.py",
        (
            "one page stands for a whole interval",
            "return last is not None and bool(reached) and raw(reached) >= last",
            "return last is not None and bool(reached)",
        ),
    ),
    *of(
        "lakegc_core/references/shown/proofs.py",
        f"{_SHOWN}/test_proofs.py::test_where_an_entry_is_proven_already_and_a_new_candidate_is_not_lakefs_is_asked",
        (
            "a candidate of which nothing is proven differs from all entries",
            'rows = joined(rows, subjects.unproven(made), ["size"], "left_anti")',
            "subjects.unproven(made)",
        ),
    ),
    *of(
        "lakegc_core/references/shown/subjects.py",
        f"{_SHOWN}/test_proofs.py::test_what_somebody_replaced_since_is_asked_about_anew",
        (
            "what HEADs proved holds for ever",
            "if not self.known.is_mark or not known.rows:",
            "if True:",
        ),
    ),
    *of(
        "lakegc_core/references/shown/proofs.py",
        f"{_SHOWN}/test_proofs.py::test_a_plain_copy_of_an_entry_whose_claim_is_no_digest_is_found",
        (
            "the claim of an entry needs no proof",
            "proofs = distinct(both(*(selected(each, _PROVEN, _has_digest) for each in (known, subjects.read(made)))))",
            "proofs = distinct(subjects.questions, *_PROVEN.names)",
        ),
    ),
    *of(
        "lakegc_core/references/shown/proofs.py",
        f"{_SHOWN}/test_proofs.py::test_a_digest_that_no_listing_shows_counts_as_much",
        (
            "entries that claim what a candidate holds differ from it",
            'rows = joined(rows, subjects.contents(made), CONTENTS.names, "left_anti")',
            "subjects.contents(made)",
        ),
    ),
    *of(
        "lakegc_core/references/shown/proofs.py",
        f"{_SHOWN}/test_proofs.py::test_what_the_heads_do_not_suffice_for_waits_and_later_marks_make_the_others",
        (
            "what no HEAD was made of differs from all",
            'rows = joined(subjects.questions, proofs, _PROVEN.names, "left_semi")',
            "rows = subjects.questions",
        ),
    ),
    *of(
        "lakegc_core/references/shown/head_ranges.py",
        f"{_SHOWN}/test_head_ranges.py",
        (
            "metaranges that no mark has read hold nothing",
            "    if new.rows:\n",
            "    if False:\n",
        ),
        (
            "a metarange that came back counts twice",
            "    ranges = ranges.group_by(ranges.column_names).aggregate([])  # each once\n",
            "",
        ),
        (
            "heads that may be asked for whole have only some of their ranges",
            ' and branches.sum("ranges") > whole',
            "",
        ),
    ),
    *of(
        "lakegc_core/references/shown/compaction.py",
        f"{_SHOWN}/test_compaction.py::test_t51_what_the_next_commit_brings_back_is_neither_expired_nor_swept",
        (
            "nothing waits for what is staged and may be compacted",
            "return distinct(both(selected(sizes, _SIZE), _staged(entries)))",
            "return distinct(selected(sizes, _SIZE))",
        ),
    ),
    *of(
        "lakegc_core/judging/swept_before.py",
        f"{_BEFORE}_what_a_sweep_lost_is_missing_although_its_list_has_it",
        ("what a sweep lost is excused", '.as_frame().where("NOT lost")', ".as_frame()"),
    ),
    *of(
        "lakegc_core/judging/swept_before.py",
        f"{_BEFORE}_where_a_journal_does_not_read_nothing_is_excused",
        ("a journal that cannot be read excuses what is missing", "if not records.whole:", "if False:"),
    ),
    *of(
        "lakegc_core/inventory/came_back.py",
        "tests/core/inventory/test_came_back.py::test_what_was_deleted_since_the_listing_has_not_come_back_unless_the_store_shows_it",
        (
            "what was deleted since the listing counts as come back",
            "shape.where(~sure).mapInArrow(partial(_there, config), shape.schema)",
            "shape.where(~sure)",
        ),
    ),
)
