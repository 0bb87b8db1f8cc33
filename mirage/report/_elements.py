"""HTML from elements, never from strings: what enters as text leaves as text.

ElementTree escapes the markup of what it writes, and :func:`tag` first makes the text such that
HTML and UTF-8 can hold it. Only :func:`script` and :func:`style` write text as it is.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element, tostring

from mirage._base.quoting import html_characters, one_line, python_literal, script_json

__all__ = [
    "Child",
    "breakable",
    "cut",
    "data",
    "document",
    "label",
    "rounded",
    "script",
    "style",
    "tag",
]

Child = Element | str | None

NAME_LENGTH = 120
"""Characters of a name that are shown."""


def label(name: str) -> str:
    """Return a name on one line, cut if it is long, and readable if nothing of it can be seen.

    Hidden characters, such as those that set the direction of writing, are escapes.
    """
    shown = " ".join(one_line(name[: 4 * NAME_LENGTH]).split())
    if not any(unicodedata.category(char)[0] in "LNPS" for char in shown):
        shown = python_literal(name)
    return shown if len(shown) <= NAME_LENGTH else shown[: NAME_LENGTH - 1].rstrip() + "…"


def cut(text: str, most: int) -> tuple[str, int]:
    """Return the first ``most`` characters and the length of the whole; 0 if nothing is cut."""
    return html_characters(text[:most]), len(text) if len(text) > most else 0


def tag(name: str, /, *children: Child | Iterable[Child], **attributes: Any) -> Element:
    """An element; ``class_`` is the attribute ``class``, and ``data_v`` is ``data-v``.

    An attribute that is ``None`` or ``False`` is left out, and ``True`` needs no value. A child
    that is ``None`` is left out.
    """
    element = Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = "" if value is True else html_characters(str(value))
            element.set(key.rstrip("_").replace("_", "-"), written)
    for child in children:
        for part in [child] if child is None or isinstance(child, str | Element) else child:
            _append(element, part)
    return element


def breakable(name: str) -> list[Child]:
    """A name as children of an element, with places where a line of it may end."""
    parts = re.split(r"(?<=[/_@:-])(?=.)", label(name))
    return [child for part in parts for child in (tag("wbr"), part)][1:]


def _append(element: Element, child: Child) -> None:
    if child is None:
        return
    if isinstance(child, Element):
        element.append(child)
    elif len(element):
        element[-1].tail = (element[-1].tail or "") + html_characters(child)
    else:
        element.text = (element.text or "") + html_characters(child)


def style(sheet: str) -> tuple[Element, str]:
    """A style sheet of this library, and its hash for the content security policy."""
    return _raw("style", sheet)


def script(code: str) -> tuple[Element, str]:
    """A script of this library, and its hash for the content security policy."""
    return _raw("script", code)


def _raw(name: str, text: str) -> tuple[Element, str]:
    element = Element(name)
    element.text = text
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return element, f"'sha256-{digest}'"


def data(value: Any, id_: str) -> Element:
    """A block of JSON for a script to read; no browser runs it, and nothing in it ends it."""
    element = Element("script", {"type": "application/json", "id": id_})
    element.text = script_json(value)
    return element


def rounded(value: float) -> float | None:
    """A number to four places, for a script; ``None`` where there is none."""
    return round(float(value), 4) if math.isfinite(value) else None


def document(html: Element) -> str:
    """The whole file."""
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html") + "\n"
