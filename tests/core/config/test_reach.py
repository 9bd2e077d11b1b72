"""Policies that no repository ever gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakegc_core.errors import SettingsError
from tests.core.config.conftest import load


@pytest.mark.parametrize(
    ("matches", "by"),
    [
        (["*", "prod"], "'*'"),
        (["prod-*", "dev", "prod-eu-*"], "'prod-*'"),
        (["a?*", "a[bc]d"], "'a?*'"),
        (["lake", "lake"], "'lake'"),
        (["?*", "", "x"], None),
        (["[a-m]*", "[!a-m]*", "?*"], "the entries before it together"),
        (["**", "*"], "'**'"),
        (["a", "[z-a]"], "matches no repository"),
        (["Prod-*"], "matches no repository"),
        (["lakefs://prod"], "matches no repository"),
        ([" *"], "matches no repository"),
        (["prod[A-Z]"], "matches no repository"),
    ],
)
def test_a_policy_that_an_earlier_one_makes_unreachable_is_an_error(
    home: Path, matches: list[str], by: str | None
) -> None:
    matches = [match for match in matches if match]
    entries = ", ".join(f'{{match: "{match}"}}' for match in matches)
    with pytest.raises(SettingsError, match="never counts") as caught:
        load(home, f"repositories: [{entries}]")
    assert f"`repositories[{len(matches) - 1}]`: " in str(caught.value)
    assert (by or "'?*'") in str(caught.value)


@pytest.mark.parametrize(
    "matches",
    [
        ["prod-eu-*", "prod-*", "*"],
        ["prod-*", "prod*"],
        ["a?", "a*"],
        ["[ab]*", "[bc]*"],
        ["?*a", "?*b", "*"],
        ["[Pp]rod", "p?[!a]"],
    ],
)
def test_a_policy_that_some_name_reaches_is_none(home: Path, matches: list[str]) -> None:
    entries = ", ".join(f'{{match: "{match}"}}' for match in matches)
    assert [policy.match for policy in load(home, f"repositories: [{entries}]").repositories] == matches


@pytest.mark.parametrize(
    ("matches", "by"),
    [
        (["s3://", "s3://lake"], "'s3://'"),
        (["s3://lake", "s3://lake/"], "'s3://lake'"),
        (["s3://lake/a/", "gs://pond", "s3://lake/a/b"], "'s3://lake/a/'"),
        (["s3://lake/a", "s3://lake/ab", "s3://lake"], None),
    ],
)
def test_an_entry_of_stores_that_an_earlier_one_makes_unreachable_is_an_error(
    home: Path, matches: list[str], by: str | None
) -> None:
    """Its `versions: delete`, or its encryption, would never count."""
    config = f"stores: [{', '.join(f'{{match: {match!r}, delete_conditions: auto}}' for match in matches)}]"
    if by is None:
        assert [store.match for store in load(home, config).stores] == matches
        return
    with pytest.raises(SettingsError, match=rf"stores\[{len(matches) - 1}\]`: .*is matched before, by `match: {by}`"):
        load(home, config)
