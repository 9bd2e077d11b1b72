"""Runs at the start of every Python process of a victim: arms it, and makes its steps small, so that there are many.

A victim that is killed from outside has no script; `CRASH_BATCH` says how many objects a call of it deletes.
"""

import json
import os
from datetime import timedelta

if "CRASH_SCRIPT" in os.environ:
    from lakegc_core.marks import lease
    from lakegc_core.sweep import deletion, planning
    from tests.support.crashing import Script, arm

    lease.LEASE_RENEWAL = timedelta(seconds=0.5)
    deletion.BATCH, deletion._JOURNAL = 2, 4
    planning._ROWS_A_PART = 6
    script, renew = Script(**json.loads(os.environ["CRASH_SCRIPT"])), lease.Lease.renew

    def renew_and_tell(held: lease.Lease) -> None:
        renew(held)
        if held._lost is not None:
            script.lost_lease.touch()

    lease.Lease.renew = renew_and_tell  # type: ignore[method-assign]
    arm(script)

if "CRASH_BATCH" in os.environ:
    from lakegc_core.sweep import deletion, planning

    deletion.BATCH = int(os.environ["CRASH_BATCH"])
    deletion._JOURNAL = 3 * deletion.BATCH
    planning._ROWS_A_PART = 20 * deletion.BATCH
