"""Deletes that are asked for until each key has an outcome: the one home of repeated deletes.

A store says what each answer was (`DeleteAnswer`). This module decides whether lakegc asks again, for all stores alike;
`pace` decides when, and for how much at a time. Nothing here knows a protocol, nor who may delete what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from lakegc_core.errors import LakegcError, ObjectNotFoundError
from lakegc_core.names import FAILED, NO_ANSWER, Outcome
from lakegc_core.store.base import BACKOFF, NO_ETAGS, NOT_ASKED, Deletes, ObjectInfo
from lakegc_core.store.pace import Gate


class DeleteAnswer(NamedTuple):
    """The answer of one request about one key. `again`: another request may get another answer; `throttled`: one that
    comes later may; `alone`: only one for this key alone may. `unmet`: the store says that the object is not the one
    that the request named, so that it did nothing."""

    outcome: str
    again: bool = False
    throttled: bool = False
    alone: bool = False
    unmet: bool = False

    @property
    def unsure(self) -> bool:
        """True if the store may have deleted the object all the same: who puts a request off does not carry it out, but
        who breaks down or takes too long may have."""
        return self.outcome == NO_ANSWER or (self.again and not self.throttled)

    @classmethod
    def lost(cls) -> DeleteAnswer:
        """No answer, or none that can be read."""
        return cls(NO_ANSWER, again=True)

    @classmethod
    def unnamed(cls) -> DeleteAnswer:
        """A request for many keys was taken, and the answer does not say what became of this one."""
        return cls(NO_ANSWER, alone=True)

    @classmethod
    def not_together(cls) -> DeleteAnswer:
        """The store refused to take the keys in one request, and did nothing."""
        return cls(NOT_ASKED, alone=True)

    @classmethod
    def not_sent(cls) -> DeleteAnswer:
        """The gate was shut before the request that deletes could be sent."""
        return cls(NOT_ASKED)

    @classmethod
    def failed(cls, code: str, *, again: bool = False, throttled: bool = False) -> DeleteAnswer:
        """The store's own code."""
        return cls(FAILED + code, again or throttled, throttled)

    @classmethod
    def not_met(cls, code: str) -> DeleteAnswer:
        """The store's own code for a condition that does not hold."""
        return cls(FAILED + code, unmet=True)


_IS_GONE = (Outcome.DELETED, Outcome.ALREADY_GONE)

Ask = Callable[[Sequence[str]], Mapping[str, DeleteAnswer]]
"""Makes one request for some keys, and says of each what was answered."""


def judge_unclear(look: Callable[[], object]) -> DeleteAnswer:
    """The answer for a key whose delete was answered, but not with what the protocol calls done.

    `look` asks for the object, and raises ObjectNotFoundError if it is gone.
    """
    try:
        look()
    except ObjectNotFoundError:
        return DeleteAnswer(Outcome.DELETED)
    except LakegcError:
        return DeleteAnswer.lost()
    return DeleteAnswer.failed("NotCarriedOut", again=True)


def judge_unmet(said: DeleteAnswer, etag: str, look: Callable[[], ObjectInfo]) -> DeleteAnswer:
    """The answer for a key whose delete named an `etag`, and of which the store `said` that the condition is not met.

    Only another object under the key is `changed`. Some stores say the same of a key without an object, as it is when
    an earlier request deleted it. And a store that shows the object with this very ETag has refused its spelling.
    """
    try:
        found = look()
    except ObjectNotFoundError:
        return DeleteAnswer(Outcome.ALREADY_GONE)
    except LakegcError:
        return said
    return said if found.etag in (None, etag) else DeleteAnswer(Outcome.CHANGED)


def delete_all(
    keys: Sequence[str],
    ask: Ask,
    *,
    attempts: int,
    gate: Gate,
    single: Ask | None = None,
    look: Callable[[str], object] | None = None,
    singles: int = 1,
) -> dict[str, str]:
    """Ask for the deletion of different keys until each has an outcome, `attempts` times at most; outcomes by key.

    A throttled request has the pace's patience as well. A key found gone after an unsure answer (lost, or 500, 502,
    504) is `deleted`: that request may have done it. A key that the gate no longer lets through is `not_asked`.
    `single` makes a request for one key, `singles` of them side by side. `look`: see `judge_unclear`.
    """
    outcomes = dict.fromkeys(keys, NOT_ASKED)
    doubtful: set[str] = set()
    pending, began, attempt = list(keys), gate.pace.now(), 0
    while pending:
        attempt += 1
        with gate.pace.turn(len(pending)) as turn:
            if not gate.opens():
                return outcomes
            told = ask(pending)
            turn.throttled = any(each.throttled for each in told.values())
        alone = [key for key in pending if told[key].alone]
        pending = [key for key in pending if not told[key].alone]
        if alone:
            if single is None:
                raise AssertionError("a request for one key cannot be divided")
            found = delete_singly(alone, single, attempts=attempts, gate=gate, singles=singles)
            outcomes |= {key: _divided(key, told[key].outcome, found[key], key in doubtful, look) for key in alone}
        for key in pending:
            outcomes[key] = _outcome(told[key].outcome, key in doubtful)
        doubtful.update(key for key in pending if told[key].unsure)
        patient = gate.pace.now() - began < gate.pace.patience
        tried = attempt >= attempts
        pending = [key for key in pending if told[key].again and (not tried or (told[key].throttled and patient))]
        if pending:
            gate.pace.sleep(BACKOFF.wait(attempt))
            for key in pending:
                if told[key].throttled:  # until it is asked once more: a throttled request was not carried out
                    outcomes[key] = _outcome(NOT_ASKED, key in doubtful)
    return outcomes


_IN_DOUBT = {Outcome.ALREADY_GONE: Outcome.DELETED, NOT_ASKED: NO_ANSWER}


def _outcome(said: str, doubtful: bool) -> str:
    """The outcome of a key by its last answer. `doubtful`: a request before that may have deleted it."""
    return _IN_DOUBT.get(said, said) if doubtful else said


def _divided(key: str, before: str, found: str, doubtful: bool, look: Callable[[str], object] | None) -> str:
    """The outcome of a key that was asked for alone, and `found`, after a request for many had ended in `before`."""
    if found == NOT_ASKED:
        return _outcome(before, doubtful)
    if look is not None and before == NO_ANSWER and found in _IS_GONE:
        # Who took a request for many and did not carry it out may do the same with one for this key.
        found = judge_unclear(partial(look, key)).outcome
    return _outcome(found, doubtful or before == NO_ANSWER)  # a request for many may have done it


def delete_singly(keys: Sequence[str], ask: Ask, *, attempts: int, gate: Gate, singles: int) -> dict[str, str]:
    """`delete_all` of each key by itself, `singles` at most side by side; outcomes by key."""

    def delete(key: str) -> dict[str, str]:
        return delete_all([key], ask, attempts=attempts, gate=gate)

    outcomes: dict[str, str] = {}
    if min(singles, len(keys)) < 2:
        for key in keys:
            outcomes |= delete(key)
        return outcomes
    with ThreadPoolExecutor(min(singles, len(keys))) as pool:
        for found in pool.map(delete, keys):
            outcomes |= found
    return outcomes


Way = Callable[[Sequence[str], Gate, Mapping[str, str]], Mapping[str, DeleteAnswer]]
_LOOKS = 8  # requests side by side that look at keys whose condition is not met


class BatchDeletes:
    """Deletes of many keys a request; one by one where a key or the store takes no batch. Safe to share between
    threads. A store says how it asks."""

    best: Deletes
    attempts: int  # of each request, the first one included
    singles: int = 1  # requests for one key side by side, within one call

    def delete_many(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str] = NO_ETAGS) -> list[str]:
        """One outcome per key, in order. `etags`: see `Store.delete_many`."""
        outcomes: dict[str, str] = {}
        alone: list[str] = []
        together: list[str] = []
        single = partial(self._ask, self.ask_one, gate, etags)
        for key in dict.fromkeys(keys):
            if not self.can_be_named(key):
                outcomes[key] = FAILED + "InvalidKey"
            else:
                by_itself = self.goes_alone(key) or (key in etags and self.best.etags_a_request < 2)
                (alone if by_itself else together).append(key)
        outcomes |= delete_singly(alone, single, attempts=self.attempts, gate=gate, singles=self.singles)
        for start in range(0, len(together), self.best.batch):
            outcomes |= delete_all(
                together[start : start + self.best.batch],
                partial(self._ask, self.ask_batch, gate, etags),
                attempts=self.attempts,
                gate=gate,
                single=single,
                look=self.look,
                singles=self.singles,
            )
        return [outcomes[key] for key in keys]

    def try_etag(self, key: str, etag: str, *, together: bool) -> str:
        """The outcome of one delete that names an ETag, by a request for many or by one for this key alone."""
        gate, named = Gate(), {key: etag}
        way = self.ask_batch if together else self.ask_one
        told = delete_all(
            [key],
            partial(self._ask, way, gate, named),
            attempts=self.attempts,
            gate=gate,
            single=lambda keys: dict.fromkeys(keys, DeleteAnswer.failed("NotTogether")),
        )
        return told[key]

    def _ask(self, way: Way, gate: Gate, etags: Mapping[str, str], keys: Sequence[str]) -> Mapping[str, DeleteAnswer]:
        """Make one request, and look at each key whose condition is not met."""
        told = dict(way(keys, gate, etags))
        unmet = [key for key in keys if told[key].unmet and key in etags]
        if unmet:
            with ThreadPoolExecutor(min(_LOOKS, len(unmet))) as pool:
                found = pool.map(lambda key: judge_unmet(told[key], etags[key], partial(self.look, key)), unmet)
                told |= zip(unmet, found, strict=True)
        return told

    def can_be_named(self, key: str) -> bool:
        """True if an object can have this key at all; nobody asks for one that cannot."""
        return bool(key)  # the empty one would name the root itself

    def goes_alone(self, key: str) -> bool:
        """True if no batch can name the key, or the store takes no batch."""
        return False

    def ask_batch(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for some keys: see `Ask`. It has passed the gate. Who sends others before it asks `gate.may`
        once more; who sends more than one, `gate.opens` before each other one that deletes. Each key that has an ETag
        in `etags` is deleted on the condition that its object has it."""
        raise NotImplementedError

    def ask_one(self, keys: Sequence[str], gate: Gate, etags: Mapping[str, str]) -> Mapping[str, DeleteAnswer]:
        """One request for one key. `gate`, `etags`: see `ask_batch`."""
        raise NotImplementedError

    def look(self, key: str) -> ObjectInfo:
        """Ask for the object. ObjectNotFoundError if it is gone."""
        raise NotImplementedError
