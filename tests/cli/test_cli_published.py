"""mirage published."""

from __future__ import annotations

import json

from command_line import LANGUAGE, mirage

from mirage.leaderboard import Leaderboard


def test_the_published_ranking() -> None:
    shown = mirage("published", LANGUAGE)
    assert shown.stdout.strip() == str(Leaderboard.published(LANGUAGE))
    entries = json.loads(mirage("published", "yo", "--json").stdout)["entries"]
    assert len(entries) == 19
    assert entries[0]["logit"] is None
