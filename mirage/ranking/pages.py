"""The HTML page and the plot of a ranking, both made by :mod:`mirage.report`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage._base.lazy import imported_when_called
from mirage._base.near_names import NearNames
from mirage.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["HTML_SUFFIXES", "Presentable"]

# The report imports rankings, so importing it here would be circular.
_write = imported_when_called("mirage.report._page", "write")
_plot = imported_when_called("mirage.report.plots", "plot_ranking")


HTML_SUFFIXES = (".html", ".htm", "")
"""Suffixes of the files that a page can be written to; ``/dev/stdout`` has none."""

_OTHER_FORMATS = {
    ".csv": "ranking.to_pandas().to_csv(path)",
    ".json": "ranking.to_json()",
    ".md": "ranking.to_markdown()",
    ".tex": "ranking.to_pandas().to_latex(path)",
    ".txt": "ranking.to_text()",
    ".xlsx": "ranking.to_pandas().to_excel(path)",
}


def _check_suffix(path: Path) -> None:
    """Raise an error if the suffix of a file is that of another format than HTML."""
    suffix = path.suffix.lower()
    if suffix in HTML_SUFFIXES:
        return
    other = _OTHER_FORMATS.get(suffix, "")
    hint = f"; for a {suffix} file, use {other}" if other else ""
    raise SettingError(
        f"{path}: write() writes an HTML page, so the file name must end in .html{hint}"
    )


class Presentable(NearNames):
    """A ranking in one language or in several, which can be plotted and written as an HTML page."""

    def write(
        self,
        path: str | Path,
        *,
        judges: Iterable[object] = (),
        details: Mapping[str, object] | None = None,
        retrieval: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the report of the ranking as one self-contained HTML file for any browser.

        The report shows the leaderboard, the features and the win probabilities. A page for each
        model shows its best, worst and failed responses. If there are too many responses, the
        report shows only some of them and states the limit. The same ranking always gives the same
        file.

        Args:
            path: Path of the file, which ends in ``.html``. Other formats are written with
                ``to_pandas().to_csv(path)``, ``to_markdown()``, ``to_json()`` or ``to_text()``.
            judges: Measurements of the judges to show in addition to those of the ranking itself:
                results of :func:`mirage.arena.judge_agreement`,
                :func:`~mirage.arena.position_bias`, :func:`~mirage.arena.verbosity_bias` and
                :func:`mirage.metaeval.evaluate`, and single items of the tuple that
                :func:`~mirage.arena.self_preference` returns.
            details: Further entries for the provenance in the report, by name, such as ``{"cost":
                "4.20 USD"}``.
            retrieval: The retrieval run (``pipeline.retrieve``) of each model, by model name. If
                the ranking has several languages, each model has a mapping from language code to
                retrieval run. The report then shows the retrieval scores beside the passages, and a
                table of retrieval quality, which needs the extra ``retrieval``.

        Raises:
            SettingError: If the file name has the suffix of another format.
            MirageError: If the file cannot be written, if ``judges`` contains an object that is not
                such a measurement, or if ``retrieval`` names a model that is not in the ranking.

        Example:
            >>> from mirage import Leaderboard
            >>> Leaderboard.published("sw").write("report.html")  # doctest: +SKIP
        """
        _check_suffix(Path(path))
        _write(
            self,
            path,
            judges=judges,
            details=details,
            retrieval=retrieval,
        )

    def plot(self) -> Figure:
        """Plot the logits of the models with their intervals.

        For several languages, plot the rank of each model in each language instead. Models are
        sorted, best first. :func:`mirage.report.plot_features` plots their features.

        Returns:
            A matplotlib figure, which notebooks show and ``savefig`` writes.

        Raises:
            MissingPackageError: If matplotlib is not installed.
        """
        figure: Figure = _plot(self)
        return figure
