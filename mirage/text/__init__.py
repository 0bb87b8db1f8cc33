"""Parse a model's raw text into sections, citations, sentences and tokens.

The expected form of a response is ``##Reason: ... ##Answer: ...`` with passages cited in brackets.
Models follow it only roughly. Therefore every function here returns a defined result for every
string, in time linear in its length, and the same result each time. Returned texts are in Unicode's
NFC form.
"""

from __future__ import annotations

from mirage.text.abstentions import abstains
from mirage.text.claims import read_claims
from mirage.text.mentions import mention, mentioned
from mirage.text.responses import parse
from mirage.text.sentences import split_sentences
from mirage.text.tokens import tokenize

__all__ = [
    "abstains",
    "mention",
    "mentioned",
    "parse",
    "read_claims",
    "split_sentences",
    "tokenize",
]
