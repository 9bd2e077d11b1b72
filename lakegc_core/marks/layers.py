"""The layers of an optimized mark: a clean mark and the optimized ones since, newest first, each read only as sealed.

A mark rests on the one before it if nothing is odd about that one; anything odd makes it a clean one, which says so.
The layers are chosen once, at the listing, and recorded there; the stages decide what is carried.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakegc_core.clock import APART
from lakegc_core.errors import LakegcError, MarkError
from lakegc_core.marks.artifacts import CLEAN, INCREMENTAL, Manifest, MarkArtifacts, facts_of
from lakegc_core.marks.context import MarkContext, RepositoryContext
from lakegc_core.marks.ledger import restores_of
from lakegc_core.marks.previous import findings_before
from lakegc_core.marks.shelf import Shelf
from lakegc_core.marks.sweeps import gone_in_rings
from lakegc_core.names import STAGES, Stage
from lakegc_core.policy.facts import ListingFacts
from lakegc_core.tables.dataset import Dataset

if TYPE_CHECKING:
    import pyarrow as pa

Seals = tuple[tuple[str, str], ...]
"""Ids and seals of the marks below one, newest first; none for a clean mark."""

LITTLE = 250_000
"""Objects of a namespace up to which a mark or a sweep of it is little work for Java."""

_LISTING = Stage.NAMESPACE_LISTING
_LAST = Stage.EXPIRED_ADDRESSES


@dataclass(frozen=True)
class Layer:
    """One mark of which parts are taken over, with its manifests."""

    mark: MarkArtifacts
    manifests: Mapping[str, Manifest]

    @property
    def mark_id(self) -> str:
        return self.mark.mark_id

    def dataset(self, stage: str, schema: pa.Schema, dataset: str = "") -> Dataset:
        """A dataset of a stage; empty of the last stage while that is not finished. MarkError for a dataset that the
        manifest does not name: what is missing must not pass for empty."""
        if stage == _LAST and stage not in self.manifests:
            return Dataset(schema)
        return self.mark.dataset_of(self.manifests[stage], schema, dataset)


def of_all(layers: Sequence[Layer], stage: str, schema: pa.Schema, dataset: str = "") -> Dataset:
    """A dataset of all layers together."""
    return Dataset(schema, tuple(source for each in layers for source in each.dataset(stage, schema, dataset).sources))


@dataclass(frozen=True)
class Basis:
    """The layers that a mark rests on, newest first; none, and the reason, where it is a clean one."""

    layers: tuple[Layer, ...]
    why_clean: str = ""

    @property
    def seals(self) -> Seals:
        """Ids and seals of the marks below."""
        return tuple((layer.mark_id, layer.manifests[_LAST].digest) for layer in self.layers)


def choose(context: MarkContext) -> Basis:
    """The layers on which a mark that begins now may rest."""
    if context.header.mode == CLEAN:
        return Basis((), "asked for")
    before = findings_before(context)
    if before.mark is None:
        return Basis((), before.why)
    try:
        layers = layers_of(before.mark)
        problem = _problem(context, layers)
    except LakegcError as error:
        return Basis((), str(error))
    return Basis((), problem) if problem else Basis(layers)


def is_little(mark: MarkArtifacts) -> bool:
    """True if a sweep of a mark is little work. Only how Spark is started hangs on it."""
    return mark.facts(ListingFacts).objects <= LITTLE


def listed_before(context: MarkContext) -> ListingFacts | None:
    """What the newest of the other marks listed; None if it did not come to its end, or cannot be read."""
    earlier = (each.mark for each in Shelf.of(context) if each.mark_id != context.header.mark_id)
    mark = next(earlier, None)
    try:
        return None if mark is None or mark.manifest(_LAST) is None else mark.facts(ListingFacts)
    except LakegcError:
        return None


def will_be_little(context: MarkContext) -> bool:
    """True if a mark that begins now will most likely be little work, as far as one look at the newest of the others
    tells: it will rest on them, or the namespace holds little. Only how Spark is started hangs on it."""
    listed = listed_before(context)
    if listed is None:
        return False
    due = context.header.mode == CLEAN or len(listed.rests_on) + 1 >= context.policy.clean_every
    return listed.objects <= LITTLE or context.header.mode == INCREMENTAL or not due


def below(context: MarkContext) -> tuple[Layer, ...]:
    """The layers below a mark whose listing stands, newest first. MarkError if one is not what was sealed."""
    return _read_layers(context.mark, context.mark.facts(ListingFacts).rests_on)


def all_layers(context: MarkContext) -> tuple[Layer, ...]:
    """The same with the mark itself on top, of which all but the last stage must be finished."""
    found: dict[str, Manifest] = {stage: context.mark.require(stage) for stage in STAGES[:-1]}
    if last := context.mark.manifest(_LAST):
        found[_LAST] = last
    return (Layer(context.mark, found), *below(context))


def rests_on(mark: MarkArtifacts) -> list[str]:
    """Ids of the marks that a mark rests on; none while its listing is not finished."""
    if mark.manifest(_LISTING) is None:
        return []
    return [mark_id for mark_id, _ in mark.facts(ListingFacts).rests_on]


def layers_of(newest: MarkArtifacts) -> tuple[Layer, ...]:
    """A complete mark and those that it rests on, newest first. MarkError if one is not what was sealed."""
    chain = newest.chain()
    return (Layer(newest, chain), *_read_layers(newest, facts_of(chain, ListingFacts).rests_on))


def _read_layers(beside: MarkArtifacts, seals: Seals) -> tuple[Layer, ...]:
    layers = []
    for mark_id, seal in seals:
        layer = Layer(mark := MarkArtifacts(beside.config, mark_id, beside.home), mark.chain())
        if layer.manifests[_LAST].digest != seal:
            raise MarkError(
                f"Mark {mark_id}, which a later one rests on, is not the one that it was. Make a new mark: it will be "
                "a clean one."
            )
        layers.append(layer)
    return tuple(layers)


def _problem(context: MarkContext, layers: Sequence[Layer]) -> str:
    """The reason why a mark cannot rest on these layers, in words; "" if it can."""
    newest = layers[0]
    header = newest.mark.header()
    assert header is not None  # its chain was read
    if (header.version, header.block_prefix) != (context.header.version, context.header.block_prefix):
        return f"mark {newest.mark_id} was made by another version of lakegc, or of another place"
    if header.ignore_commits != context.header.ignore_commits:
        return f"mark {newest.mark_id} was made with another ignore_commits"
    if since := _made_since(context, header.started_at):
        return f"mark {since}, which it cannot go on from, was made since mark {newest.mark_id}"
    if context.header.mode != INCREMENTAL and len(layers) >= context.policy.clean_every:
        every = "every mark is to be a clean one (clean_every: 1)"
        return every if len(layers) == 1 else f"{len(layers)} marks rest on one another by now"
    if restored := restored_since(context, header.started_at):
        return (
            f"objects of mark {restored.mark_id} were restored since mark {newest.mark_id} began, or less than an hour "
            "before, as clocks may differ"
        )
    for layer in layers:
        if gone_in_rings(layer.mark.store, layer.mark.folder):
            return f"a ring stopped a sweep of mark {layer.mark_id}, which took live data for garbage"
        if missing := _missing_part(layer):
            return f"{missing} is missing, or not as long as it was"
    return ""


def _made_since(context: MarkContext, moment: float) -> str:
    """A complete mark, of whatever series, that was begun after a moment (unix seconds); "" if there is none. Journals
    of before it may be retired, so that a mark which needs them has to be a clean one."""
    between = (
        each.mark_id
        for each in Shelf.of(context)
        if each.header is not None and moment < each.header.started_at < context.header.started_at and each.is_complete
    )
    return next(between, "")


@dataclass(frozen=True)
class Restore:
    """Objects of a mark were brought back. `at`: unix seconds."""

    mark_id: str
    at: float

    @property
    def known_from(self) -> datetime:
        """Marks that began after this minute know of the restore. An hour (APART) is added, as clocks may differ."""
        return datetime.fromtimestamp(math.ceil((self.at + APART) / 60) * 60, UTC)


def restored_since(context: RepositoryContext, moment: float) -> Restore | None:
    """The last time that objects were brought back since then. An hour more for clocks that differ."""
    every = (Restore(each.mark_id, restored_at(each.mark)) for each in Shelf.of(context))
    last = max(every, key=lambda each: each.at, default=None)
    return last if last is not None and last.at >= moment - APART else None


def restored_at(mark: MarkArtifacts) -> float:
    """When objects of a mark were last brought back, or may have been, unix seconds; 0 if never. A restore whose
    report says that nothing came back is none."""
    return max((each.begun_at for each in restores_of(mark) if each.may_have_copied), default=0.0)


def _missing_part(layer: Layer) -> str:
    """A part of the layer that is not in its place with its size. What they hold is checked when they are read."""
    lying: dict[str, int] = {}
    for batch in layer.mark.store.list(f"{layer.mark.folder}/"):
        lying |= zip(batch.column("address").to_pylist(), batch.column("size").to_pylist(), strict=True)
    for stage, manifest in layer.manifests.items():
        for dataset, parts in manifest.datasets.items():
            folder = layer.mark.stage_folder(stage, dataset)
            for part in parts:
                if lying.get(f"{folder}/{part.name}") != part.bytes:
                    return f"{folder}/{part.name}"
    return ""
