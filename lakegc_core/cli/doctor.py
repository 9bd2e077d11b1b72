"""The work of `doctor`: one page on whether repositories can be marked and swept, and on what endangers them."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator

from lakegc_core.cli.opening import settings_of
from lakegc_core.cli.options import show
from lakegc_core.config.which_file import settings_line
from lakegc_core.doctor.examine import examine, examine_all
from lakegc_core.doctor.finding import Diagnosis, Finding, Level
from lakegc_core.errors import RefusedError
from lakegc_core.names import Json, counted
from lakegc_core.views.progress import Reporter
from lakegc_core.views.words import money, shown

_WIDTH = 120
_SIGNS = {Level.ALARM: "✗", Level.WARNING: "!", Level.NOTE: "·"}


def run_doctor(options: argparse.Namespace, reporter: Reporter) -> int:
    settings = settings_of(options)
    reporter.say(settings_line(settings.file))
    if options.repository:
        found = examine(settings, options.repository, say=reporter.say)
    else:
        found = examine_all(settings, say=reporter.say)
    show(options, found.as_json(), doctor_screen(found))
    return RefusedError.exit_code if found.is_alarming else 0


def doctor_screen(found: Diagnosis) -> str:
    """The one page of a diagnosis."""
    counts = {level: sum(each.level is level for each in found.every_finding) for level in Level}
    said = ", ".join(f"{count:,} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count)
    lines = [
        f"{found.repository or 'all repositories'} · doctor · {said or 'nothing found'}",
        *_server_lines(found),
        "",
    ]
    lines += _finding_lines(found.findings)
    for part in found.parts:
        if part.findings:
            lines += [f"{part.repository}", *_finding_lines(part.findings)]
    sound = [part.repository for part in found.parts if not part.findings]
    if sound:
        lines += _wrapped("  nothing found in ", f"{', '.join(sound[:20])}{' …' if len(sound) > 20 else ''}")
    lines += _cost_lines(found.cost)
    lines += _wrapped("  looked at   ", ", ".join(found.looked_at))
    return "\n".join(lines)


def _server_lines(found: Diagnosis) -> Iterator[str]:
    server = found.server
    if not server:
        return
    yield " · ".join(filter(None, (f"lakeFS {server['version'] or 'of an unknown version'}", server["edition"])))
    if server["known_defects"]:
        yield "  known defects of this version, and what lakegc does about them"
        for text in server["known_defects"]:
            yield from _wrapped("    - ", text)


def _cost_lines(cost: Json) -> Iterator[str]:
    """Requests and cost, a line each for the mark and the sweep."""
    for name, what in (("clean_mark", "a clean mark"), ("sweep", f"the sweep of mark {cost.get('mark_id')}")):
        if asked := cost.get(name):
            counts = ", ".join(counted(asked[f"{each}s"], each) for each in ("list", "read", "write", "delete"))
            price = "" if asked["money"] is None else f" · {money(asked['money'], cost)}"
            told = f"{what}: {counts}; lakeFS: {counted(asked['lakefs'], 'call')}{price}"
            yield from _wrapped("  requests    ", told)


def _finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield from _wrapped(f"  {_SIGNS[finding.level]} {finding.level:<8} ", f"{finding.what} [{finding.name}]")
        yield from _wrapped(f"{'':<13}why   ", finding.why)
        yield from _wrapped(f"{'':<13}do    ", finding.do)
        yield ""


def _wrapped(beginning: str, text: str) -> list[str]:
    return textwrap.wrap(
        shown(text),
        _WIDTH,
        initial_indent=beginning,
        subsequent_indent=" " * len(beginning),
        break_long_words=False,
        break_on_hyphens=False,
    )
