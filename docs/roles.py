"""Docstrings refer to objects as Sphinx does (``:class:`~mirage.Query```); here that is a link."""

from __future__ import annotations

import re

import griffe

_ROLE = re.compile(r":(?:class|func|meth|attr|data|mod):`(?:[^`<]*<)?(~?)([\w.]+)>?`")


def _link(match: re.Match[str]) -> str:
    short, name = match.groups()
    return f"`{name.rpartition('.')[2] if short else name}`"


class Roles(griffe.Extension):
    """Writes roles as code."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of each object."""
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(_link, obj.docstring.value).replace("``", "`")
