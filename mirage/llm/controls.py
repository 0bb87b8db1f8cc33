"""Tokens by which chat templates tell instructions from texts, broken in texts of others.

A server that reads such a token in a passage ends the user's turn there, and takes what follows for
its own instructions.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

__all__ = ["INVISIBLE", "Break", "apart", "break_controls", "folded", "spread"]

Break = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
"""What must not stand in a text of others, and what stands there instead."""

INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
"""Characters that nobody sees and many tokenizers drop, for a class of a regular expression."""

_UNSEEN = re.compile(f"[{INVISIBLE}]+")

# A name between brackets, as templates write it: <|im_start|>, </s>, <<SYS>>, [INST], [|user|].
_NAMED = re.compile(
    r"(?P<open>[<\[＜［])(?=(?P<name>[^\s<>\[\]＜＞［］]{1,100})(?P<close>[>\]＞］]))"
)

_WORDS = (
    "s|bos|eos|unk|pad|mask|sep|cls|sop|eop|eot|eod|sys|ai|bot|user|system|assistant|model|human"
    "|tool|tools|think|thinking|image|audio|video|img|reserved[0-9]*|unused[0-9]*|用户|助手"
)
_IN_ANGLES = re.compile(rf"/?(?:{_WORDS}|[^_▁]*[_▁].*)/?", re.IGNORECASE)
_IN_SQUARES = re.compile(
    r"/?(?:B_|E_)?(?:INST|SYS|SYSTEM|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOLS?|TOOL_[A-Z]+|MODEL_SETTINGS"
    r"|ARGS|CALL_ID|IMG|IMG_[A-Z]+|AUDIO|BEGIN_AUDIO|PREFIX|SUFFIX|MIDDLE|THINK|USER|ASSISTANT"
    r"|g?MASK|[sS]MASK|CLS|SEP|PAD|UNK|BOS|EOS|UNUSED[0-9]+|control_[0-9]+)"
)


def folded(text: str) -> str:
    """A text as a careless tokenizer sees it: without invisible characters, of normal width."""
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", text))


def spread(word: str) -> str:
    """A regular expression for a word with any invisible characters between its letters."""
    return f"[{INVISIBLE}]*".join(map(re.escape, word))


def apart(token: str) -> str:
    """A token that no tokenizer takes for one: with a blank behind its first character."""
    return f"{token[:1]} {token[1:]}"


def break_controls(text: str) -> str:
    """A text in which no token of a chat template stands, as far as templates are known.

    Broken are names between ``<`` and ``>`` with a bar or an underscore in them, such as
    ``<|im_start|>``, ``<｜User｜>``, ``<end_of_turn>``, and a few more: ``<s>``, ``<<SYS>>``; and
    names between square brackets that Llama, Mistral, EXAONE and ChatGLM know (``[INST]``,
    ``[|user|]``, ``[gMASK]``); also with invisible characters in them, or of full width. Tags of
    HTML and citations stay as they are.
    """
    return _NAMED.sub(lambda match: match["open"] + (" " if _is_control(match) else ""), text)


def _is_control(match: re.Match[str]) -> bool:
    angles = match["open"] in "<＜"
    if angles != (match["close"] in ">＞"):
        return False
    name = folded(match["name"])
    if name.startswith("|") or name.endswith("|"):
        return True
    within = _IN_ANGLES if angles else _IN_SQUARES
    return within.fullmatch(name) is not None
