"""How high a system can rank that does not answer but is optimised for the features.

    python validation/truth/leaks.py [LANGUAGE ...]

Prints for each optimiser the languages in which it ranks above half of the board's own systems, and
those in which it is also not marked as unfamiliar (a leak). The last columns have its best and
median rank, as the share of the board's systems that rank below it.
"""

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
from _results import add_figure, save, script_parser

from mirage import Leaderboard
from mirage.languages import LANGUAGES
from mirage.leaderboard import OPTIMISERS, leak_audit
from mirage.leaderboard.leaks import Leak

if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help="all 18 by default")
    options = parser.parse_args()
    optimisers = dict(list(OPTIMISERS.items())[: 3 if options.quick else None])
    found: dict[str, list[tuple[str, Leak]]] = defaultdict(list)
    for code in ["en"] if options.quick else options.languages or LANGUAGES:
        audit = leak_audit(Leaderboard.bundled(code), optimisers, progress=False)
        for row in audit:
            found[row.optimiser].append((code, row))
        print(f"{code}: {len(audit)} optimisers, {len(audit.leaks)} leak; the highest stands above "
              f"{max(row.above for row in audit):.0%}", flush=True)  # fmt: skip
    print(f"\n{'optimiser':24}{'above, median':>15}{'most':>7}   above half in    leaks in")
    for name, rows in sorted(found.items(), key=lambda item: -max(r.above for _, r in item[1])):
        shares = [row.above for _, row in rows]
        half = " ".join(code for code, row in rows if row.above > 0.5) or "-"
        leaks = " ".join(code for code, row in rows if row.leaks) or "-"
        print(f"{name:24}{median(shares):15.0%}{max(shares):7.0%}   {half:16} {leaks}")
        add_figure(median(shares), name, "systems below, median")
        add_figure(max(shares), name, "systems below, most")
        add_figure(sum(row.above > 0.5 for _, row in rows), name, "languages above half")
        add_figure(sum(row.leaks for _, row in rows), name, "languages with a leak")
    save(parser, options)
