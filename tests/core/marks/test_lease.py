"""The lease keeps a second collector out, and a dead one keeps nobody out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lakegc_core.clock import APART
from lakegc_core.errors import RefusedError, StoreError
from lakegc_core.marks import lease
from lakegc_core.policy.safety import LEASE
from lakegc_core.store.local import LocalConfig, LocalStore
from tests.support.waiting import STARTS

HOME = "_lakefs/retention/gc/lakegc"


@pytest.fixture
def config(tmp_path: Path) -> LocalConfig:
    (tmp_path / HOME).mkdir(parents=True)
    return LocalConfig(str(tmp_path))


def _held(config: LocalConfig, verb: str = "mark"):  # type: ignore[no-untyped-def]
    return lease.held(config, HOME, verb, external=False, demanded=True)


def _in_another_process(config: LocalConfig, after: str) -> subprocess.CompletedProcess[str]:
    """Take the lease in another process, then run `after` while holding it."""
    program = (
        "import os, sys\n"
        "from lakegc_core.marks import lease\n"
        "from lakegc_core.store.local import LocalConfig\n"
        f"with lease.held(LocalConfig({config.path!r}), {HOME!r}, 'sweep there', external=False, demanded=True):\n"
        f"    {after}\n"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=STARTS)


def _stored(config: LocalConfig) -> dict[str, object]:
    return dict(json.loads((Path(config.path) / HOME / lease.NAME).read_bytes()))


def test_a_second_collector_is_refused_while_the_first_one_lives(config: LocalConfig) -> None:
    with _held(config):
        refused = _in_another_process(config, "pass")
    assert refused.returncode != 0
    assert "Another collector works on this repository: `mark`" in refused.stderr


def test_a_lease_that_was_given_back_can_be_taken_again(config: LocalConfig) -> None:
    with _held(config):
        pass
    assert _in_another_process(config, "pass").returncode == 0
    with _held(config):
        pass


def test_a_collector_that_died_on_this_machine_keeps_nobody_out(config: LocalConfig) -> None:
    assert _in_another_process(config, "os._exit(9)").returncode == 9
    assert float(str(_stored(config)["expires_at"])) > 0, "it did not give the lease back"
    with _held(config):
        pass


def test_a_collector_that_died_on_another_machine_keeps_others_out_until_its_time_is_over(
    config: LocalConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _in_another_process(config, "os._exit(9)").returncode == 9
    file = Path(config.path) / HOME / lease.NAME
    there = _stored(config) | {"host": "elsewhere"}
    file.write_text(json.dumps(there))
    with pytest.raises(RefusedError, match="whose lease runs until"), _held(config):
        pass
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(float(str(there["expires_at"])) + 1))
    with _held(config):
        pass


@pytest.mark.parametrize(
    "other",
    [{"processes": "pid:[1]"}, {"boot": "another"}, {"host": "elsewhere"}],
    ids=["another container", "another boot", "another machine"],
)
def test_a_collector_whose_processes_cannot_be_seen_is_not_taken_for_dead(
    config: LocalConfig, other: dict[str, str]
) -> None:
    """Two containers may share a host's name and boot, and neither sees the other's processes."""
    assert _in_another_process(config, "os._exit(9)").returncode == 9
    file = Path(config.path) / HOME / lease.NAME
    file.write_text(json.dumps(_stored(config) | other))
    with pytest.raises(RefusedError, match="whose lease runs until"), _held(config):
        pass


def test_a_collector_of_another_user_whose_processes_are_hidden_is_not_taken_for_dead(
    config: LocalConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _in_another_process(config, "os._exit(9)").returncode == 9

    def hidden(process: int, number: int) -> None:
        raise PermissionError  # what the kernel says of a process that is there

    monkeypatch.setattr(os, "kill", hidden)
    with pytest.raises(RefusedError, match="whose lease runs until"), _held(config):
        pass


def test_a_killed_collector_keeps_nobody_out_though_its_parent_has_not_noticed(config: LocalConfig) -> None:
    program = (
        "import os, signal\n"
        "from lakegc_core.marks import lease\n"
        "from lakegc_core.store.local import LocalConfig\n"
        f"with lease.held(LocalConfig({config.path!r}), {HOME!r}, 'sweep there', external=False, demanded=True):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as killed:
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table of processes
        assert Path(f"/proc/{killed.pid}").exists()
        with _held(config):
            pass
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b'{"holder": "of another version"}'])
def test_a_lease_of_another_form_keeps_others_out_for_its_time(
    config: LocalConfig, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(config.path) / HOME / lease.NAME
    file.write_bytes(data)
    with pytest.raises(RefusedError, match="a command of another version"), _held(config):
        pass
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(file.stat().st_mtime + LEASE.total_seconds() + 1))
    with _held(config):
        pass


def test_a_lease_of_a_clock_that_was_far_ahead_keeps_others_out_for_its_time_only(
    config: LocalConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ahead = Path(config.path) / HOME / lease.NAME, 300 * 86_400
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    monkeypatch.setenv("LAKEGC_NOW", str(time.time() + ahead))
    with _held(config):
        held = _stored(config) | {"host": "another"}
    file.write_text(json.dumps(held))
    for late, refused in (
        (0, True),
        (LEASE.total_seconds() + APART - 60, True),
        (LEASE.total_seconds() + APART, False),
    ):
        monkeypatch.setenv("LAKEGC_NOW", str(file.stat().st_mtime + late + 1))
        if refused:
            with pytest.raises(RefusedError, match=r"runs until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"), _held(config):
                pass
        else:
            with _held(config):
                pass


def test_a_lease_that_somebody_else_took_is_noticed_before_the_next_delete(
    config: LocalConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    with _held(config) as mine:
        assert mine is not None
        mine.check()
        monkeypatch.setenv("LAKEGC_NOW", "99999999999")
        with pytest.raises(RefusedError, match="could not be renewed in time"):
            mine.check()
        monkeypatch.delenv("LAKEGC_NOW")


def test_whoever_deletes_the_lease_stops_the_collector_and_its_tasks(config: LocalConfig) -> None:
    with _held(config) as mine:
        assert mine is not None and mine.proof.stands()
        LocalStore(config).delete_many([f"{HOME}/{lease.NAME}"])
        assert not mine.proof.stands()
        mine.renew()
        with pytest.raises(RefusedError, match=r"was lost .*See docs/runbook\.md#lease-lost"):
            mine.check()


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_the_proof_on_an_executor_stands_whatever_its_clock_says(
    config: LocalConfig, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    with _held(config) as mine:
        assert mine is not None
        monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
        monkeypatch.setenv("LAKEGC_NOW", str(time.time() + ahead))
        assert mine.proof.stands()
        monkeypatch.delenv("LAKEGC_NOW")
    assert not mine.proof.stands()


def test_stages_of_one_process_share_the_lease(config: LocalConfig) -> None:
    with _held(config) as outer, _held(config, "namespace_listing") as inner:
        assert inner is outer
    assert _stored(config)["expires_at"] == 0.0


def test_an_external_lease_is_the_operators_business(config: LocalConfig) -> None:
    with lease.held(config, HOME, "mark", external=True, demanded=True) as held:
        assert held is None
    assert not (Path(config.path) / HOME / lease.NAME).exists()


def test_a_renewal_that_landed_and_whose_answer_was_lost_leaves_the_lease_ours(
    config: LocalConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _held(config) as found:
        assert found is not None
        write = LocalStore.write

        def deaf(store: LocalStore, key: str, data: bytes, **condition: Any) -> str:
            write(store, key, data, **condition)
            raise StoreError("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(LocalStore, "write", deaf)
            found.renew()
        found.renew()  # its condition fails, and the lease is ours all the same
        found.renew()
        found.check()


def test_a_renewal_that_fails_does_not_lengthen_the_lease(config: LocalConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the collector went on for ten minutes more than the store knew of."""
    monkeypatch.setenv("LAKEGC_UNSAFE", "yes")
    with _held(config) as found:
        assert found is not None

        def broken(store: LocalStore, key: str, data: bytes, **condition: Any) -> str:
            raise StoreError("no answer")

        until = float(str(_stored(config)["expires_at"]))
        monkeypatch.setattr(LocalStore, "write", broken)
        monkeypatch.setenv("LAKEGC_NOW", str(until - 1))
        found.renew()
        found.check()
        monkeypatch.setenv("LAKEGC_NOW", str(until + 1))
        with pytest.raises(RefusedError, match="could not be renewed in time"):
            found.check()
