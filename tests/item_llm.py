"""A loopback LLM that writes items from bundled passages, and answers questions about them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from llm_server import last_user_text

from mirage import MirageDataset
from mirage.models import Passage, Query
from mirage.text import parse

PASSAGE = re.compile(r"^<passage_(\d+) (\w+)>\n(.*?)\n</passage_\1 \2>$", re.DOTALL | re.MULTILINE)
QUESTION = re.compile(r"^<question (\w+)>\n(.*?)\n</question \1>$", re.DOTALL | re.MULTILINE)

Item = dict[str, Any]


def draft_of(query: Query) -> Item:
    """A bundled query as an LLM would write it, citing its relevant passages by number."""
    told = parse(query.reference or "", query.language, query.passage_ids)
    cites = "".join(f" [{n}]" for n in range(1, len(query.relevant) + 1))
    reason = re.sub(r"\s*\[[^\]]*\]", "", told.reason)
    return {
        "question": query.text,
        "answers": [list(forms) for forms in query.answers],
        "wrong_answers": [list(forms) for forms in query.wrong_answers],
        "reason": reason,
        "answer": told.answer_text + ("" if query.answerable is False else cites),
    }


class ItemWriter:
    """Answers requests as an LLM would that knows the items of a dataset by their passages.

    ``change`` may turn an item into another, ``known`` are the ids of queries that it answers
    without passages.
    """

    def __init__(
        self,
        dataset: MirageDataset,
        change: Callable[[Query, Item], Item] = lambda _, item: item,
        known: frozenset[str] = frozenset(),
    ) -> None:
        self.by_text = {
            query[query.relevant[0]].titled_text: query for query in dataset if query.relevant
        }
        self.items = {id_: change(query, draft_of(query)) for id_, query in self.by_text.items()}
        self.answers = {
            item["question"]: (query, item)
            for query, item in zip(self.by_text.values(), self.items.values(), strict=True)
        }
        self.known = known

    def __call__(self, request: Mapping[str, Any]) -> str:
        prompt = last_user_text(request)
        passages = [text for *_, text in PASSAGE.findall(prompt)]
        if prompt.startswith("You write an item"):
            item = self.items.get(passages[0])
            return json.dumps(item or {"skip": "nothing to ask"}, ensure_ascii=False)
        question = QUESTION.findall(prompt)[0][1]
        query, item = self.answers.get(question, (None, {}))
        told = [forms[0] for forms in item.get("answers", ())]
        if query is None or not told:
            return json.dumps({"answer": None})
        if passages:
            seen = any(query[id_].titled_text in passages for id_ in query.relevant)
        else:
            seen = query.id in self.known
        return json.dumps({"answer": "; ".join(told) if seen else None}, ensure_ascii=False)


def documents_of(dataset: MirageDataset) -> list[Passage]:
    """The passage that answers each query, where one does, as documents of one passage."""
    return [
        query[id_].model_copy(update={"id": id_.replace("#", "-")})
        for query in dataset
        if len(query.relevant) == 1
        for id_ in query.relevant
    ]
