"""kill -9 at every step of a mark and of a sweep: command, JVM and workers die, and the next start makes it right.

Slow: each place is a process of its own. `test_crash` has a few of them, and the same steps without processes. Of the
kills of a sweep those between the seal of its plan and its report are among the safety tests: the others come before
its first delete, or after all is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from lakegc_core import pipeline
from lakegc_core.names import STAGES
from tests.support import crash_lake
from tests.support.crash_lake import Lake, killed
from tests.support.crashing import AFTER, BEFORE
from tests.support.waiting import STARTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

LISTING, STAGED, COMMITS, COMMITTED, EXPIRED = STAGES

# The stages that are done already, the step, the moment, and which of several such steps.
MARK: list[tuple[int, str, str, int]] = [
    (0, "mark.json", AFTER, 1),
    (0, "lease taken", AFTER, 1),
    (0, "lease renewed", AFTER, 1),
    (0, f"{LISTING}/part", AFTER, 1),
    (0, f"{LISTING}/units/part", AFTER, 1),
    (0, f"{LISTING}/manifest.json", BEFORE, 1),
    (1, f"{STAGED}/elsewhere/part", AFTER, 1),
    (1, f"{STAGED}/part", AFTER, 1),
    (1, f"{STAGED}/manifest.json", BEFORE, 1),
    (2, "rules", AFTER, 1),
    (2, f"{COMMITS}/refs/part", AFTER, 2),
    (2, f"{COMMITS}/others/part", AFTER, 1),
    (2, f"{COMMITS}/part", AFTER, 1),
    (2, f"{COMMITS}/manifest.json", BEFORE, 1),
    (3, f"{COMMITTED}/metaranges/part", AFTER, 1),
    (3, f"{COMMITTED}/checksums/part", AFTER, 1),
    (3, f"{COMMITTED}/part", BEFORE, 1),
    (3, f"{COMMITTED}/index/part", AFTER, 1),
    (3, f"{COMMITTED}/ranges/part", AFTER, 1),
    (3, f"{COMMITTED}/manifest.json", AFTER, 1),
    (4, f"{EXPIRED}/part", AFTER, 1),
    (4, f"{EXPIRED}/kept/part", AFTER, 1),
    (4, f"{EXPIRED}/pasts/part", AFTER, 1),
    (4, f"{EXPIRED}/ranges/part", AFTER, 1),
    (4, f"{EXPIRED}/new-origins/part", AFTER, 1),
    (4, f"{EXPIRED}/groups-of-origins/part", AFTER, 1),
    (4, f"{EXPIRED}/origins/part", BEFORE, 1),
    (4, f"{EXPIRED}/looked_through/part", AFTER, 1),
    (4, "deleted.text/part", AFTER, 1),
    (4, f"{EXPIRED}/manifest.json", BEFORE, 1),
    (4, "lease given back", BEFORE, 1),
]
TELLING = {
    ("sweep/plan.json", AFTER, 1),
    ("delete objects", AFTER, 1),
    ("sweep/outcomes/part", AFTER, 1),
    ("sweep/later attempt/look/uncommitted/part", BEFORE, 1),
    ("sweep/report.json", BEFORE, 1),
}
"""Of the places in a sweep those that the safety tests have, too."""
SWEEP: list[tuple[str, str, int]] = [
    ("lease renewed", AFTER, 1),  # the lease that the mark has given back is taken over
    ("sweep/attempt/look/uncommitted/elsewhere/part", AFTER, 1),
    ("sweep/attempt/look/uncommitted/part", AFTER, 1),
    ("sweep/attempt/look/commits/refs/part", AFTER, 1),
    ("sweep/attempt/look/commits/others/part", AFTER, 1),
    ("sweep/attempt/look/commits/part", AFTER, 1),
    ("sweep/attempt/look/reuploads/candidates/part", AFTER, 1),
    ("sweep/attempt/plan/part", AFTER, 1),
    ("unified/deleted/part", AFTER, 1),
    ("unified/deleted.text/part", AFTER, 2),
    ("unified/deleted/_SUCCESS", AFTER, 1),
    ("unified/deleted.text/_SUCCESS", AFTER, 1),
    ("unified/summary.json", AFTER, 1),
    ("sweep/plan.json", AFTER, 1),
    ("delete objects", AFTER, 1),
    ("delete objects", AFTER, 5),
    ("sweep/outcomes/part", AFTER, 1),
    ("sweep/later attempt/look/uncommitted/elsewhere/part", AFTER, 1),
    ("sweep/later attempt/look/uncommitted/part", BEFORE, 1),
    ("sweep/later attempt/look/commits/refs/part", AFTER, 1),
    ("sweep/later attempt/look/commits/others/part", AFTER, 1),
    ("sweep/later attempt/look/commits/part", AFTER, 1),
    ("sweep/statement.json", AFTER, 1),
    ("sweep/report.json", BEFORE, 1),
    ("sweep/report.json", AFTER, 1),
    ("lease given back", BEFORE, 1),
]
# What lakeFS is asked for the n-th time; it does it, and nobody hears of it.
MARK_REQUESTS = [
    (1, "POST /gc/prepare_uncommited", 1),
    (2, "POST /gc/prepare_commits/async", 2),
    (2, "GET /dump", 1),
]
SWEEP_REQUESTS = [("POST /gc/prepare_uncommited", 1), ("GET /dump", 2)]


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake, kept with no stage of its mark done, with one, and so on up to 5."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAKEGC_UNSAFE", "yes")
        with crash_lake.lake(spark, tmp_path_factory.mktemp("kills")) as lake:
            lake.keep("0")
            context = lake.begin()
            for number, stage in enumerate(pipeline.MARKING.values(), 1):
                stage(spark, context)
                lake.keep(str(number))
            yield lake


@pytest.mark.parametrize(("done", "step", "moment", "number"), MARK)
def test_a_mark_killed_at_any_step_is_finished_by_the_next_start(
    kept: Lake, done: int, step: str, moment: str, number: int
) -> None:
    kept.bring_back(str(done))
    before, script = kept.stored(), kept.script(step, moment=moment, number=number)
    killed(kept.marking(script), script)
    assert script.died_at() == [(step, moment)]
    finish_mark(kept, before)


@pytest.mark.parametrize(("done", "request_", "number"), MARK_REQUESTS)
def test_a_mark_killed_while_lakefs_answers_is_finished_by_the_next_start(
    kept: Lake, done: int, request_: str, number: int
) -> None:
    kept.bring_back(str(done))
    before, script = kept.stored(), kept.script("never")
    victim = kept.marking(script)
    with kept.at_request(request_, victim.kill, number=number):
        killed(victim, script)
    finish_mark(kept, before)


def finish_mark(lake: Lake, before: dict[str, int]) -> None:
    stood = lake.finished_stages()
    lake.mark()
    assert stood.items() <= lake.finished_stages().items(), "a stage whose manifest stood was done again"
    lake.check_mark(before)


@pytest.mark.parametrize(
    ("step", "moment", "number"),
    [pytest.param(*each, marks=[pytest.mark.safety] if each in TELLING else []) for each in SWEEP],
)
def test_a_sweep_killed_at_any_step_is_finished_by_the_next_start(
    kept: Lake, step: str, moment: str, number: int
) -> None:
    kept.bring_back("5")
    before, right, readable = kept.stored(), kept.garbage(), kept.readable()
    script = kept.script(step, moment=moment, number=number)
    killed(kept.sweeping(script), script)
    assert script.died_at() == [(step, moment)]
    finish_sweep(kept, before, right, readable)


@pytest.mark.parametrize(("request_", "number"), SWEEP_REQUESTS)
def test_a_sweep_killed_while_lakefs_answers_is_finished_by_the_next_start(
    kept: Lake, request_: str, number: int
) -> None:
    kept.bring_back("5")
    before, right, readable = kept.stored(), kept.garbage(), kept.readable()
    script = kept.script("never")
    victim = kept.sweeping(script)
    with kept.at_request(request_, victim.kill, number=number):
        killed(victim, script)
    finish_sweep(kept, before, right, readable)


def finish_sweep(lake: Lake, before: dict[str, int], right: set[str], readable: set[tuple[str, str]]) -> None:
    closed, told = lake.artifact("sweeps/1/report.json").exists(), lake.final_outcomes()
    result = lake.sweep()
    assert told.items() <= lake.final_outcomes().items(), "what was on record was done again"
    assert result.trouble == ""
    assert before.keys() - lake.stored().keys() == right
    assert lake.readable() == readable
    lake.check_swept(before, right, None if closed else result)


def test_every_step_of_a_mark_and_of_a_sweep_is_among_these_places(kept: Lake) -> None:
    """Two commands that nobody kills tell all steps that there are; a new one must be killed too."""
    kept.bring_back("0")
    before, right, marking, sweeping = kept.stored(), kept.garbage(), kept.script("never"), kept.script("never")
    for start, script in ((kept.marking, marking), (kept.sweeping, sweeping)):
        victim = start(script)
        said = victim.communicate(timeout=2 * STARTS)
        assert victim.returncode == 0, said
    kept.check_swept(before, right)
    page = "report.html"  # for people; nothing reads it
    assert set(marking.happened()) - {"probe", page} == {step for _, step, _, _ in MARK}
    assert set(sweeping.happened()) - {"probe", "lease taken", page} == {step for step, _, _ in SWEEP}
