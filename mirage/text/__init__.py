"""Parse a model's raw text into sections, citations, sentences and tokens.

The expected form of a response is ``##Reason: ... ##Answer: ...`` with passages cited in brackets.
Models follow this form only roughly. Therefore every function here returns a result for every
string, without an error. The functions are deterministic and take time linear in the length of the
string. Returned texts are in Unicode's NFC form.
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
