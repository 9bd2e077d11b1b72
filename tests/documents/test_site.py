"""The site of `make docs` has every document, and asks nobody else for anything."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.links import LINKING, ROOT

SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_document_has_its_place_in_the_site() -> None:
    pages = re.findall(r"^ +- [^:]+: (\S+\.md)$", SITE, re.MULTILINE)
    policies = [path.relative_to(ROOT) for path in (ROOT / "deploy" / "policies").glob("*.md")]
    assert sorted(map(Path, pages)) == sorted([*policies, *(path.relative_to(ROOT) for path in LINKING)])


def test_the_site_has_no_font_and_no_script_of_another_host() -> None:
    assert "font: false" in SITE and "http" not in SITE
