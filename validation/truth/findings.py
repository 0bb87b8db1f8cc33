"""How often faults are reported in wrong answers, and by mistake in right ones.

    python validation/truth/findings.py [language ...]

The texts are those that the bundled surrogates are trained on: two true answers and a terse one per
query, abstentions if no passage answers, and a fluent lie or invention, each with correct
citations. A finding on a true text is a false alarm. The figures are too good for other texts.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import MirageDataset
from mirage.features.findings import findings_of
from mirage.languages import LANGUAGES
from mirage.models import Query, Response, Run
from mirage.surrogate.drafts import Texts, bundled_texts

MANNERS = {
    "true, longer": lambda texts: texts.true[0],
    "true, conversational": lambda texts: texts.true[1],
    "true, terse": lambda texts: texts.terse,
    "lie or invention": lambda texts: texts.false,
}


def response(query: Query, text: str) -> Response:
    """Return a text that cites the relevant passages, if there are any."""
    cited = "".join(f" [{id_}]" for id_ in query.relevant)
    return Response(query_id=query.id, text=f"##Answer: {text}{cited}")


def counts(code: str, manner: str) -> Counter[str]:
    """Return the number of responses by kind of finding, and under ``any`` those with a finding."""
    dataset = MirageDataset.bundled(code)
    texts: dict[str, Texts] = dict(bundled_texts(code))
    responses = tuple(response(query, MANNERS[manner](texts[query.id])) for query in dataset)
    findings = findings_of(dataset, Run(model=manner, language=code, responses=responses))
    found = Counter({finding.kind: finding.count for finding in findings})
    found["any"] = len({id_ for finding in findings for id_ in finding.query_ids})
    found["responses"] = len(responses)
    return found


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    options = parser.parse_args()
    codes = ["en"] if options.quick else options.languages or list(LANGUAGES)
    for manner in MANNERS:
        total: Counter[str] = sum((counts(code, manner) for code in codes), Counter())
        number, some = total.pop("responses"), total.pop("any", 0)
        print(f"{manner}: {some} of {number} responses have a finding ({some / number:.1%})")
        add_figure(some / number, manner, "responses with a finding")
        for kind, count in total.most_common():
            print(f"    {kind}: {count}")
            add_figure(count, manner, kind)
    save(parser, options)
