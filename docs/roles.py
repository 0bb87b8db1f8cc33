"""Docstrings for the documentation: Sphinx roles become code, notes to tools are left out."""

from __future__ import annotations

import re

import griffe

_FOR_PYTEST = re.compile(r"\n*^PYTEST_DONT_REWRITE:.*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_ROLE = re.compile(r":(?:class|func|meth|attr|data|mod):`(?:[^`<]*<)?(~?)([\w.]+)>?`")


def _link(match: re.Match[str]) -> str:
    short, name = match.groups()
    return f"`{name.rpartition('.')[2] if short else name}`"


class Roles(griffe.Extension):
    """Rewrites the docstrings of all objects."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Rewrite the docstring of the package itself, for which ``on_object`` is not called."""
        self.on_object(obj=pkg)

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of each object."""
        if obj.docstring:
            text = _FOR_PYTEST.sub("", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(_link, text).replace("``", "`")
