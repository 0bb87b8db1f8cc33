"""True answers and lies, wrapped in the ways in which chat models write around an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mirage.models import Query
from mirage.text import split_sentences

ROOT = Path(__file__).parents[1]
PHRASES = ROOT / "tests" / "data" / "phrases"

Phrases = Mapping[str, list[str]]


def phrases_of(code: str, folder: Path = PHRASES) -> Phrases | None:
    """Return the phrases of a language by kind, or None if the folder has none."""
    path = folder / f"{code}.json"
    if not path.exists():
        return None
    manners: Phrases = json.loads(path.read_text(encoding="utf-8"))["manners"]
    return manners


def true_texts(code: str) -> list[tuple[str, str]]:
    """Return the query id and text of every true answer and abstention written by hand."""
    texts = []
    for row in _rows("mirage", code) + _rows("tests", code):
        for kind in ("true", "abstentions", "abstention"):
            of_kind = row.get(kind, [])
            texts += [
                (row["query_id"], t) for t in ([of_kind] * isinstance(of_kind, str) or of_kind)
            ]
    return texts


def false_texts(code: str) -> list[tuple[str, str]]:
    """Return the query id and text of every lie that was written by hand."""
    rows = _rows("mirage", code) + _rows("tests", code)
    return [(row["query_id"], row["false"]) for row in rows if "false" in row]


def _rows(kind: str, code: str) -> list[dict[str, Any]]:
    folder = {"mirage": "mirage/data/responses", "tests": "tests/data/truth"}[kind]
    lines = (ROOT / folder / f"{code}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


class Page(NamedTuple):
    """An answer to wrap, its query, and the phrases of its language."""

    text: str
    query: Query
    phrases: Phrases
    turn: int = 0

    def phrase(self, kind: str, offset: int = 0) -> str:
        """Return a phrase of a kind; another one for each turn."""
        choices = self.phrases[kind]
        return choices[(self.turn + offset) % len(choices)]

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of the text."""
        return split_sentences(self.text, self.query.language) or [self.text]

    @property
    def labels(self) -> list[str]:
        """Return a label for each sentence: first that of the answer, then others in turn."""
        first, *more = self.phrases["labels"]
        return [first, *(more[(self.turn + i) % len(more)] for i in range(len(self.sentences)))]

    @property
    def passage(self) -> int:
        """Return the position of a passage that answers, or 1."""
        relevant = self.query.relevant
        return self.query.passage_ids.index(relevant[0]) + 1 if relevant else 1


def _bullets(page: Page) -> str:
    return "\n".join(f"- {sentence}" for sentence in page.sentences)


def _numbered(page: Page) -> str:
    return "\n".join(f"{i}. {sentence}" for i, sentence in enumerate(page.sentences, 1))


def _labels(page: Page) -> str:
    return "\n".join(
        f"- **{label}:** {sentence}"
        for label, sentence in zip(page.labels, page.sentences, strict=False)
    )


def _table(page: Page) -> str:
    rows = "\n".join(
        f"| {label} | {sentence} |"
        for label, sentence in zip(page.labels, page.sentences, strict=False)
    )
    return f"| {page.phrase('headings')} | {page.phrase('headings', 1)} |\n|:---|---:|\n{rows}"


def _json(page: Page) -> str:
    wrapper = json.dumps({"answer": page.text}, ensure_ascii=False, indent=1)
    return f"```json\n{wrapper}\n```" if page.turn % 2 else wrapper


def _think(page: Page) -> str:
    wrong = ", ".join(forms[0] for forms in page.query.wrong_answers)
    tag = ("think", "reasoning", "thinking")[page.turn % 3]
    return f"<{tag}>\n{page.query.text} {wrong}? 4711?\n</{tag}>\n\n{page.text}"


def _sources(page: Page) -> str:
    titles = [passage.title or "docs" for passage in page.query.passages]
    line, at = page.phrase("sources"), page.passage
    lists = (
        f"{line}\n- [{titles[at - 1]}](https://example.org/docs/{at})\n- https://example.org/faq?id=7",
        f"{line}\n[{at}] {titles[at - 1]}",
        f"**{line}** [docs](https://docs.example.com/4711)",
    )
    return f"{page.text}\n\n{lists[page.turn % len(lists)]}"


def _emoji(page: Page) -> str:
    return "✅ " + " 👉🏽 ".join(page.sentences) + " 🚀"


def _everything(page: Page) -> str:
    body = (_bullets, _labels, lambda page: page.text)[page.turn % 3](page)
    return (
        f"{page.phrase('openers')} 😊\n\n### {page.phrase('headings')}\n\n{body}\n\n---\n\n"
        f"*{page.phrase('disclaimers')}*\n\n{page.phrase('closers')}\n\n{page.phrase('signatures')}"
    )


MANNERS: Mapping[str, Callable[[Page], str]] = {
    "heading": lambda page: f"### {page.phrase('headings')}\n\n{page.text}",
    "bold heading": lambda page: f"**{page.phrase('headings')}**\n{page.text}",
    "opener": lambda page: f"{page.phrase('openers')} {page.text}",
    "opener, own line": lambda page: f"{page.phrase('openers')}\n\n{page.text}",
    "closer": lambda page: f"{page.text} {page.phrase('closers')}",
    "closer, own line": lambda page: f"{page.text}\n\n{page.phrase('closers')}",
    "disclaimer": lambda page: f"{page.text}\n\n{page.phrase('disclaimers')}",
    "disclaimer, italic": lambda page: f"{page.text}\n\n---\n*{page.phrase('disclaimers')}*",
    "signature": lambda page: f"{page.text}\n\n{page.phrase('signatures')}",
    "sources": _sources,
    "attribution": lambda page: (
        f"{page.phrase('attributions').replace('{n}', str(page.passage))} {page.text}"
    ),
    "bullets": _bullets,
    "numbered": _numbered,
    "bold labels": _labels,
    "table": _table,
    "JSON": _json,
    "think": _think,
    "emoji": _emoji,
    "code fence": lambda page: f"```markdown\n{page.text}\n```",
    "bold": lambda page: f"**{page.text}**",
    "everything": _everything,
}
"""How to wrap a text, by the name of the manner."""
