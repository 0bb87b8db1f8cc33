"""HTML from elements, never from strings: what enters as text leaves as text.

ElementTree escapes what it writes; :func:`tag` first makes the text such that HTML and UTF-8 can
hold it. Only :func:`script` and :func:`style` write text as it is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element, tostring

__all__ = [
    "Child",
    "breakable",
    "clean",
    "cut",
    "data",
    "document",
    "label",
    "rounded",
    "script",
    "style",
    "tag",
    "written",
]

Child = Element | str | None

NAME_LENGTH = 120
"""Characters of a name that are shown."""

# Everything but what HTML forbids, and what no UTF-8 file can hold.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_JOINERS = "\u200c\u200d"  # part of how Persian and Indic words are written


def clean(text: str) -> str:
    """The text with visible signs for control characters, and U+FFFD for what is no character."""
    if _UNFIT.search(text) is None:
        return text
    whole = text.replace("\r\n", "\n").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _UNFIT.sub(_sign, whole)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x7F:
        return "␡"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def label(name: str) -> str:
    """A name on one line, cut where it is long, and readable where nothing of it can be seen.

    Line ends, and the characters that set the direction of writing, are blanks.
    """
    shown = "".join(
        " " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in _JOINERS else c
        for c in clean(name[: 4 * NAME_LENGTH])
    )
    shown = " ".join(shown.split())
    if not any(unicodedata.category(c)[0] in "LNPS" for c in shown):
        shown = ascii(name)
    return shown if len(shown) <= NAME_LENGTH else shown[: NAME_LENGTH - 1].rstrip() + "…"


def cut(text: str, most: int) -> tuple[str, int]:
    """The first ``most`` characters, clean, and the length of the whole; 0 if nothing is cut."""
    return clean(text[:most]), len(text) if len(text) > most else 0


def tag(name: str, /, *children: Child | Iterable[Child], **attributes: Any) -> Element:
    """An element; ``class_`` is the attribute ``class``, and ``data_v`` is ``data-v``.

    An attribute that is ``None`` or ``False`` is left out, and ``True`` needs no value. A child
    that is ``None`` is left out.
    """
    element = Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = "" if value is True else clean(str(value))
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
        element[-1].tail = (element[-1].tail or "") + clean(child)
    else:
        element.text = (element.text or "") + clean(child)


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
    element.text = written(value)
    return element


def rounded(value: float) -> float | None:
    """A number to four places, for a script; ``None`` where there is none."""
    return round(float(value), 4) if math.isfinite(value) else None


def written(value: Any) -> str:
    """JSON in which no character means anything to HTML."""
    text = clean(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def document(html: Element) -> str:
    """The whole file."""
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html") + "\n"
