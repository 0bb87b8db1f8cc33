"""Fonts for plots: whether those installed show a text in its own script."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirage.errors import needing

__all__ = ["Lettering", "MissingFontWarning", "lettering"]

# By preference: Noto (Linux, free anywhere), then what macOS and Windows bring along.
CANDIDATES = (
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Bengali",
    "Noto Sans Devanagari",
    "Noto Sans Telugu",
    "Noto Sans Thai",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans CJK KR",
    "Noto Sans JP",
    "Noto Sans KR",
    "Noto Sans SC",
    "Arial Unicode MS",
    "Bangla Sangam MN",
    "Devanagari Sangam MN",
    "Telugu Sangam MN",
    "Thonburi",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "PingFang SC",
    "Nirmala UI",
    "Leelawadee UI",
    "Yu Gothic",
    "Malgun Gothic",
    "Microsoft YaHei",
)
ALWAYS = "DejaVu Sans"
"""matplotlib brings it along: Latin, Greek, Cyrillic and Arabic letters."""


class MissingFontWarning(UserWarning):
    """No installed font shows some text of a plot; says which script, and what to install."""


@dataclass(frozen=True)
class Lettering:
    """The fonts for some texts, and the characters that none of them shows."""

    families: list[str]
    missing: frozenset[str]

    def shown(self, text: str, instead: str = "") -> str:
        """The text; where some of it cannot be shown ``instead``, or U+FFFD for what is missing."""
        if self.missing.isdisjoint(text):
            return text
        return instead or "".join("\ufffd" if c in self.missing else c for c in text)


def lettering(texts: Iterable[str]) -> Lettering:
    """The installed fonts that show these texts, with a warning where there are none.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    left = {
        c for text in texts for c in text if not c.isspace() and unicodedata.category(c) != "Cf"
    }
    families = []
    for family, characters in _installed():
        if family == ALWAYS or not left.isdisjoint(characters):
            families.append(family)
            left -= characters
        if not left:
            break
    if left:
        scripts = ", ".join(sorted({_script(c) for c in left}))
        warnings.warn(
            f"no installed font shows {scripts}, so the plot names things otherwise; install one "
            "that does, such as Noto Sans (Debian and Ubuntu: apt install fonts-noto-core "
            "fonts-noto-cjk)",
            MissingFontWarning,
            stacklevel=4,
        )
    return Lettering(families, frozenset(left))


def _installed() -> Iterator[tuple[str, set[str]]]:
    """The families that plots may use, matplotlib's own first, with the characters they show."""
    with needing("matplotlib", "report"):
        from matplotlib import font_manager
    for family in (ALWAYS, *CANDIDATES):
        try:
            path = font_manager.findfont(
                family, fallback_to_default=False, rebuild_if_missing=False
            )
        except ValueError:
            continue
        yield family, {chr(code) for code in font_manager.get_font(path).get_charmap()}


def _script(character: str) -> str:
    """The script of a character, by the first word of its name: Bengali, Hangul, CJK."""
    word = unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
    return word if word == "CJK" else word.capitalize()
