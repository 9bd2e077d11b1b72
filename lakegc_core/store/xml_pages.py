"""Reads XML as stores send it: a page, or none."""

from __future__ import annotations

from xml.etree import ElementTree


def parsed(body: bytes) -> ElementTree.Element | None:
    """The page's root; None for a body that is empty or no XML."""
    try:
        return ElementTree.fromstring(body) if body.strip() else None
    except ElementTree.ParseError:
        return None


def local_name(element: ElementTree.Element) -> str:
    """An element's name, without the namespace that some stores leave out."""
    return element.tag.rpartition("}")[2]
