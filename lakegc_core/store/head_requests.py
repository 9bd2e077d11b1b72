"""Many HEADs of one store, side by side or one after another: who asks for which key, and when asking ends.

Not here: what one HEAD asks and means (`s3`, `azure`, `gcs`, `local`), and how many may be in flight (`pace`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from lakegc_core.errors import LakegcError, ObjectNotFoundError, StoreError, UnusableKeyError
from lakegc_core.store.base import HeadAnswer, ObjectInfo


def try_head(head: Callable[[str], ObjectInfo], key: str) -> HeadAnswer:
    """Make one HEAD, and return the object, None if there is none or its key is unusable, or the error."""
    try:
        return head(key)
    except (ObjectNotFoundError, UnusableKeyError):
        return None
    except LakegcError as error:
        return error


def ask_all(
    keys: Sequence[str], ask: Callable[[str], HeadAnswer], *, failures: int, threads: int, root: str
) -> list[HeadAnswer]:
    """The answers for some keys, in order, by so many threads; see `Store.try_heads`."""
    unasked = StoreError(f"{root}: not asked for any more, because {failures + 1} HEADs had failed")
    answers: list[HeadAnswer] = [unasked] * len(keys)
    todo, failed = deque(enumerate(keys)), list[LakegcError]()

    def work() -> None:
        while True:
            try:
                number, key = todo.popleft()
            except IndexError:
                return
            answers[number] = said = ask(key)
            if isinstance(said, LakegcError):
                failed.append(said)
                if len(failed) > failures:
                    todo.clear()

    if min(threads, len(keys)) < 2:
        work()
        return answers
    # A thread takes one key after another: a future for each key would cost half as much as the HEAD.
    with ThreadPoolExecutor(min(threads, len(keys))) as pool:
        try:
            for each in [pool.submit(work) for _ in range(min(threads, len(keys)))]:
                each.result()
        finally:
            todo.clear()
    return answers
