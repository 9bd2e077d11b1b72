"""Mutants of sweeps: what may be deleted after a look, how it is deleted, and what goes on record."""

from __future__ import annotations

from tests.support.mutant_list import of

_SWEPT = "tests/core/sweep"
_RACES = "tests/interleavings"

PLANS = (
    *of(
        "lakegc_core/sweep/authorize.py",
        f"{_SWEPT}/test_authorize.py",
        (
            "a mark's findings are confirmed before the gap is over",
            "return max(listed_long_enough_at(context), found + effective_level(context).gap.total_seconds())",
            "return max(listed_long_enough_at(context), found)",
        ),
        ("a look may follow the listing at once", "    if wait > 0:\n", "    if wait > 86400:\n"),
    ),
    *of(
        "lakegc_core/sweep/authorize.py",
        f"{_SWEPT}/test_authorize.py",
        ("a laxer level than that of lakegc.yaml judges", "level=effective_level(context),", "level=context.level,"),
    ),
    *of(
        "lakegc_core/sweep/what_counts.py",
        "tests/core/whole/test_unknown_names.py",
        (
            "unknown names are collected if either says so",
            "context.header.collect_unknown_names and context.policy.collect_unknown_names",
            "context.header.collect_unknown_names or context.policy.collect_unknown_names",
        ),
    ),
    *of(
        "lakegc_core/sweep/what_counts.py",
        f"{_SWEPT}/test_what_counts.py",
        (
            "a longer minimum age moves no cutoff",
            "cutoff=header.cutoff - (longest - header.min_age),",
            "cutoff=header.cutoff,",
        ),
        (
            "holds that lakegc.yaml has now do not count",
            "holds=tuple(sorted({*header.holds, *policy.holds})),",
            "holds=header.holds,",
        ),
        (
            "tags are protected only if both say so",
            "header.protect_tags or policy.protect_tags is True",
            "header.protect_tags and policy.protect_tags is True",
        ),
    ),
    *of(
        "lakegc_core/sweep/planning.py",
        f"{_SWEPT}/test_planning.py",
        ("what is too young by lakegc.yaml is planned", "        table = self._without_young(table)\n", ""),
        (
            "what a branch shows is not remembered for the next mark",
            "        if asked.shown.rows:\n",
            "        if False:\n",
        ),
    ),
    *of(
        "lakegc_core/sweep/candidates.py",
        f"{_SWEPT}/test_planning.py",
        (
            "what is rescued is not remembered for the next mark",
            "pa.array([Outcome.RESCUED, Outcome.HELD], pa.string())",
            "pa.array([Outcome.HELD], pa.string())",
        ),
    ),
    *of(
        "lakegc_core/sweep/call.py",
        f"{_RACES}/test_from_mark_to_mark.py -k last_look",
        (
            "what the last look finds live is not remembered for the next mark",
            "        look.remember(self.spark, self.context, self._expired, "
            "lenient=self.waves.resumed or self.closing)\n",
            "",
        ),
    ),
    *of(
        "lakegc_core/sweep/candidates.py",
        f"{_RACES}/test_after_the_mark.py::test_a_tag_is_put_on_an_expired_commit",
        (
            "what the look finds committed is planned",
            'rows["referred"], rows["held"], late]',
            'rows["canary"], rows["held"], late]',
        ),
    ),
    *of(
        "lakegc_core/sweep/planning.py",
        f"{_RACES}/test_from_mark_to_mark.py -k a_later_mark_found_it_live",
        (
            "what later marks found is not asked",
            "if self.context.level.gap:\n            candidates",
            "if not self.context.level.gap:\n            candidates",
        ),
    ),
    *of(
        "lakegc_core/sweep/candidates.py",
        f"{_RACES}/test_after_the_mark.py {_RACES}/test_from_mark_to_mark.py -k after_the_mark",
        (
            "what was dead for less than the gap is planned",
            'pc.greater(rows["since"], instant(ready))',
            'pc.greater(rows["since"], instant(ready + 1e8))',
        ),
    ),
    *of(
        "lakegc_core/sweep/planning.py",
        f"{_RACES}/test_while_the_look_asks.py",
        (
            "a look counts though heads have moved meanwhile",
            "if number == LOOKS or not look.heads_moved(self.context):",
            "if number == 1 or not look.heads_moved(self.context):",
        ),
    ),
    *of(
        "lakegc_core/sweep/look.py",
        f"{_SWEPT}/test_look.py",
        (
            "a repository that was created anew is taken for the one that was marked",
            "if (now.storage_namespace, now.creation_date) != (\n        context.header.storage_namespace,\n"
            "        context.header.repository_created,\n    ):",
            "if now.storage_namespace != context.header.storage_namespace:",
        ),
        (
            "heads that moved after the staged dump are not noticed",
            "return any(seen != now for seen in self.heads)",
            "return all(seen != now for seen in self.heads)",
        ),
        (
            "a glance does not see tags",
            'named = (("branch", client.branches(repository)), ("tag", client.tags(repository)))',
            'named = (("branch", client.branches(repository)),)',
        ),
        (
            "a glance compares the commits of refs and not their names",
            "(kind, ref.name, ref.commit_id) for kind, refs in named",
            '(kind, "", ref.commit_id) for kind, refs in named',
        ),
        (
            "a glance forgets the commits that an earlier one asked for",
            "out=out, extra=self._fetched)",
            "out=out)",
        ),
        (
            "what is staged now is not live",
            "Wanted(self.staged.sources + self.committed.sources + self.neighbours.keys.sources)",
            "Wanted(self.committed.sources + self.neighbours.keys.sources)",
        ),
        (
            "what neighbours refer to now is not live",
            "Wanted(self.staged.sources + self.committed.sources + self.neighbours.keys.sources)",
            "Wanted(self.staged.sources + self.committed.sources)",
        ),
        (
            "a look asks for the heads of the mark",
            "            commits=self.commits,\n            index",
            "            index",
        ),
        (
            "a look does not search what it has read itself",
            "index=marked.index + read[INDEX],",
            "index=marked.index,",
        ),
    ),
    *of(
        "lakegc_core/sweep/look.py",
        f"{_SWEPT}/test_look.py",
        (
            "a look at a restored server is believed",
            "    if commits.facts.former_heads_unknown:\n",
            "    if commits.facts.former_heads_unknown < 0:\n",
        ),
    ),
)

DELETES = (
    *of(
        "lakegc_core/sweep/waves.py",
        f"{_SWEPT}/test_waves.py",
        (
            "a wave is sent though rules have changed",
            "if glance.rules_changed() or glance.has_many_commits():\n            return True",
            "if glance.has_many_commits():\n            return True",
        ),
        ("a wave is sent without the lease", "                self.lease.check()\n", "                pass\n"),
        ("a wave is sent on a look that is too old", "if age >= valid:", "if age < 0:"),
        (
            "deletes that fail count towards a ring",
            "return self._gone_before + self.objects - self._stay",
            "return self._gone_before + self.objects",
        ),
        (
            "one wave deletes for as long as the look is believed",
            "lasts = min(valid - age, self.context.level.watch_interval.total_seconds())",
            "lasts = valid - age",
        ),
    ),
    *of(
        "lakegc_core/sweep/deletion.py",
        f"{_SWEPT}/test_deletion.py",
        (
            "the age of what is planned is not judged before it is deleted",
            'fit = pc.and_(named, pc.less(batch["last_modified"], cutoff))',
            "fit = named",
        ),
        (
            "one fit object lets its whole batch be deleted",
            "if not pc.all(fit, skip_nulls=False, min_count=0).as_py():",
            "if not pc.any(fit).as_py():",
        ),
        (
            "batches are sent after the time is up",
            "if self.now() >= self.until:\n                return False",
            "if self.now() >= self.until:\n                return True",
        ),
        (
            "a task deletes though another collector has the lease",
            "return self.lease is None or self.lease.stands()",
            "return True",
        ),
        (
            "what was deleted before an error is not on record",
            "                journal.write()\n                raise\n",
            "                raise\n",
        ),
        (
            "a task that Spark repeats finds gone what it deleted itself",
            "piece.asked_before or _is_repeated()",
            "piece.asked_before",
        ),
        (
            "what the store was not asked for has an outcome",
            "found = found.filter(pc.not_equal(told, NOT_ASKED))",
            "pc.not_equal(told, NOT_ASKED)",
        ),
    ),
    *of(
        "lakegc_core/sweep/deletion.py",
        f"{_SWEPT}/test_sweep_budget.py -k throttles",
        (
            "a task that Spark repeats has all its requests again",
            "if is_repeated and piece.most_requests is not None:",
            "if is_repeated and piece.most_requests == 0:",
        ),
    ),
    *of(
        "lakegc_core/store/pace.py",
        f"{_SWEPT}/test_sweep_budget.py -k throttles",
        (
            "requests are not counted",
            "if self.most is not None and self.sent >= self.most:",
            "if self.most is not None and self.sent > self.most:",
        ),
    ),
    *of(
        "lakegc_core/sweep/budget.py",
        f"{_SWEPT}/test_sweep_budget.py -k beyond_its_budget",
        ("each part of a plan has the whole budget", "                room = left\n", ""),
        ("more bytes than the budget has are planned", 'room.bytes, side="right")', 'room.bytes, side="right") + 1'),
    ),
    *of(
        "lakegc_core/sweep/waves.py",
        f"{_SWEPT}/test_near.py",
        ("a path that is gone after a ring stops nothing", "if self.taken or not is_done:", "if not is_done:"),
    ),
    *of(
        "lakegc_core/sweep/rings.py",
        f"{_SWEPT}/test_rings.py -k first_ring",
        (
            "the first ring is a tenth",
            "int(rows * share)",
            "int(rows * (share + 0.1))",
        ),
    ),
    *of(
        "lakegc_core/sweep/waves.py",
        f"{_SWEPT}/test_sweep_budget.py -k from_the_instant_on",
        (
            "deletes are sent after the time of the budget",
            "ends = until if self.budget.until is None else min(until, self.budget.until)",
            "ends = until",
        ),
    ),
    *of(
        "lakegc_core/sweep/planning.py",
        f"{_SWEPT}/test_sweep_budget.py -k failed_to_delete",
        (
            "what the store refused fills the budget every night",
            "(*largest_first(first.sources), *largest_first(last.sources))",
            "(*largest_first(last.sources), *largest_first(first.sources))",
        ),
    ),
    *of(
        "lakegc_core/sweep/planning.py",
        f"{_SWEPT}/test_sweep.py -k restored_copy",
        (
            "a sweep without a gap does not ask for what a restore brought back",
            "back = None if self.context.level.gap else brought_back(self.spark, self.context, candidates)",
            "back = None",
        ),
    ),
    *of(
        "lakegc_core/sweep/record.py",
        f"{_SWEPT}/test_record.py",
        (
            "what was rescued is asked for again",
            "Outcome.RESCUED, Outcome.HELD, Outcome.LOST, Outcome.CHANGED)",
            "Outcome.HELD, Outcome.LOST, Outcome.CHANGED)",
        ),
        (
            "an object that is another one by now is asked for again",
            "Outcome.LOST, Outcome.CHANGED)",
            "Outcome.LOST)",
        ),
        (
            "a plan that was changed is believed",
            "return unsealed(record, changed, mark_digest=mark.digest)",
            "return record",
        ),
        (
            "the plan of another mark is believed",
            "return unsealed(record, changed, mark_digest=mark.digest)",
            "return unsealed(record, changed)",
        ),
        ("two collectors seal one plan", "encode(value), if_absent=True)", "encode(value))"),
        (
            "planned objects may be without an outcome",
            "        if totals.untold:\n",
            "        if totals.untold > planned:\n",
        ),
        (
            "attempts before the plan was sealed count",
            'return outcomes.where(outcomes["attempt"] >= first)',
            "return outcomes",
        ),
    ),
    *of(
        "lakegc_core/sweep/totals.py",
        f"{_SWEPT}/test_totals.py",
        (
            "an earlier attempt's graver outcome counts",
            'F.struct("attempt", weight)',
            'F.struct(weight, "attempt")',
        ),
    ),
    *of(
        "lakegc_core/sweep/lost.py",
        f"{_SWEPT}/test_lost.py",
        (
            "what is referenced and gone passes for rescued",
            "_MAY_BE_LOST = pa.array([Outcome.RESCUED, Outcome.HELD],",
            "_MAY_BE_LOST = pa.array([Outcome.HELD],",
        ),
    ),
)
