"""Parse a model's raw text into sections, citations, sentences and tokens.

The expected form of a response is ``##Reason: ... ##Answer: ...`` with passages cited in brackets.
Models follow it only roughly. Therefore every function here returns a defined result for every
string, in time linear in its length, and the same result each time. Returned texts are in Unicode's
NFC form.
"""

from mirage.text.abstentions import ABSTAINS_AT, abstains
from mirage.text.citations import cite_by_id
from mirage.text.claims import Claims, Mention, Stance, read_claims
from mirage.text.mentions import MENTIONED_AT, mention, mentioned
from mirage.text.responses import ParsedResponse, parse
from mirage.text.sentences import Sentence, sentence_pieces, split_sentences
from mirage.text.tokens import tokenize

__all__ = [
    "ABSTAINS_AT",
    "MENTIONED_AT",
    "Claims",
    "Mention",
    "ParsedResponse",
    "Sentence",
    "Stance",
    "abstains",
    "cite_by_id",
    "mention",
    "mentioned",
    "parse",
    "read_claims",
    "sentence_pieces",
    "split_sentences",
    "tokenize",
]
