"""Build HTML from elements, never from strings, so that every text is escaped.

ElementTree escapes markup when it writes an element. :func:`tag` first replaces the characters
that HTML or UTF-8 cannot represent. Only :func:`script` and :func:`style` write text unescaped.
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

Child = Element | str | None

NAME_LENGTH = 120
"""Largest length of a displayed name, in characters."""


def label(name: str) -> str:
    """Return a name as one line of at most ``NAME_LENGTH`` characters.

    Invisible characters, such as those that set the direction of writing, are escaped. A name
    without any visible character becomes a Python string literal.
    """
    line = " ".join(one_line(name[: 4 * NAME_LENGTH]).split())
    if not any(unicodedata.category(char)[0] in "LNPS" for char in line):
        line = python_literal(name)
    return line if len(line) <= NAME_LENGTH else line[: NAME_LENGTH - 1].rstrip() + "…"


def cut(text: str, most: int) -> tuple[str, int]:
    """Return the first ``most`` characters of a text, and the length of the whole text.

    The length is 0 if the text is not cut.
    """
    return html_characters(text[:most]), len(text) if len(text) > most else 0


def tag(name: str, /, *children: Child | Iterable[Child], **attributes: Any) -> Element:
    """Return an HTML element.

    Args:
        name: Name of the element.
        *children: Texts, elements, and iterables of them. ``None`` is skipped.
        **attributes: Attributes. ``class_`` becomes ``class`` and ``data_v`` becomes ``data-v``.
            ``None`` and ``False`` are skipped; ``True`` writes the attribute without a value.
    """
    element = Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            text = "" if value is True else html_characters(str(value))
            element.set(key.rstrip("_").replace("_", "-"), text)
    for child in children:
        for part in [child] if child is None or isinstance(child, str | Element) else child:
            _append(element, part)
    return element


def breakable(name: str) -> list[Child]:
    """Return a name as HTML nodes, with ``<wbr>`` at positions where a line may break."""
    parts = re.split(r"(?<=[/_@:-])(?=.)", label(name))
    return [child for part in parts for child in (tag("wbr"), part)][1:]


def _append(element: Element, child: Child) -> None:
    if child is None:
        return
    if isinstance(child, Element):
        element.append(child)
    elif len(element):  # ElementTree stores text after a child in the child's tail
        element[-1].tail = (element[-1].tail or "") + html_characters(child)
    else:
        element.text = (element.text or "") + html_characters(child)


def style(sheet: str) -> tuple[Element, str]:
    """Return a ``<style>`` element with CSS, and its hash for the content security policy."""
    return _raw("style", sheet)


def script(code: str) -> tuple[Element, str]:
    """Return a ``<script>`` element with code, and its hash for the content security policy."""
    return _raw("script", code)


def _raw(name: str, text: str) -> tuple[Element, str]:
    element = Element(name)
    element.text = text
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return element, f"'sha256-{digest}'"


def data(value: Any, id_: str) -> Element:
    """Return an element that contains a value as JSON, for a script to read.

    Browsers do not run the content, and no text in it can close the element.

    Args:
        value: The value.
        id_: The id of the element.
    """
    element = Element("script", {"type": "application/json", "id": id_})
    element.text = script_json(value)
    return element


def rounded(value: float) -> float | None:
    """Return a number rounded to four decimals; ``None`` if it is not finite."""
    return round(float(value), 4) if math.isfinite(value) else None


def document(html: Element) -> str:
    """Return the text of the HTML file whose root element is ``html``."""
    return "<!doctype html>\n" + tostring(html, encoding="unicode", method="html") + "\n"
