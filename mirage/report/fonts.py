"""Choose installed fonts that can display the texts of a plot in their own script."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mirage.errors import needing

# In order of preference: Noto (free), then fonts that macOS and Windows include.
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
"""Font that comes with matplotlib; it has Latin, Greek, Cyrillic and Arabic letters."""


class MissingFontWarning(UserWarning):
    """Warning that no installed font can display the script of a text in a plot."""


@dataclass(frozen=True)
class Lettering:
    """The fonts for the texts of a plot.

    Attributes:
        families: Font families, in the order in which matplotlib tries them.
        missing: Characters of the texts that no installed font can display.
    """

    families: list[str]
    missing: frozenset[str]

    def shown(self, text: str, instead: str = "") -> str:
        """Return a text if the fonts can display all of it, otherwise a replacement.

        Args:
            text: The text.
            instead: The replacement. By default, it is the text with U+FFFD in place of each
                character that the fonts lack.
        """
        if self.missing.isdisjoint(text):
            return text
        return instead or "".join("\ufffd" if c in self.missing else c for c in text)


def lettering(texts: Iterable[str]) -> Lettering:
    """Return the installed fonts that can display these texts.

    If no installed font can display a character, a :class:`MissingFontWarning` names its script.

    Raises:
        MissingPackageError: If matplotlib is not installed.
    """
    remaining = {
        c for text in texts for c in text if not c.isspace() and unicodedata.category(c) != "Cf"
    }
    families = []
    for family, characters in _installed():
        if family == ALWAYS or not remaining.isdisjoint(characters):
            families.append(family)
            remaining -= characters
        if not remaining:
            break
    if remaining:
        scripts = ", ".join(sorted({_script(c) for c in remaining}))
        warnings.warn(
            f"no installed font can display {scripts}, so the plot uses replacement texts; install "
            "one that can, such as Noto Sans (Debian and Ubuntu: apt install fonts-noto-core "
            "fonts-noto-cjk)",
            MissingFontWarning,
            stacklevel=4,
        )
    return Lettering(families, frozenset(remaining))


def _installed() -> Iterator[tuple[str, set[str]]]:
    """Yield each installed font family and its characters, matplotlib's own font first."""
    with needing("matplotlib"):
        from matplotlib import font_manager
    for family in (ALWAYS, *CANDIDATES):
        try:
            path = font_manager.findfont(
                family, fallback_to_default=False, rebuild_if_missing=False
            )
        except ValueError:  # the font is not installed
            continue
        yield family, {chr(code) for code in font_manager.get_font(path).get_charmap()}


def _script(character: str) -> str:
    """Return the script of a character, the first word of its Unicode name, such as Bengali."""
    word = unicodedata.name(character, "UNKNOWN").split()[0].split("-")[0]
    return word if word == "CJK" else word.capitalize()
