"""Rules of every board, and the checks that enforce them.

A check yields problems: messages that begin with a location. A board with a problem must not be
published. Responses that are only suspicious get a remark on the page (:func:`marks`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta

from mirage._base.files import read_rows
from mirage._base.quoting import visible
from mirage.boards.copies import Copies, gold_leaks
from mirage.boards.folders import BOARD_FILE, BoardFolder, Entry, current_version
from mirage.boards.records import SURROGATE, Manifest, Version
from mirage.errors import MirageError

RULES = (
    "Every submission counts. None is chosen as the best of several: each row shows which of how "
    "many submissions of this submitter it is.",
    "No submission is removed in silence: removed ones stay listed with the day and the reason.",
    "Submissions do not change. A better system is a new submission.",
    "All scores are computed from the submitted responses. Scores are never submitted.",
    "Every query needs a response or an error. A failure counts as the worst result.",
    "Answers use the shown passages, and come from neither references nor submissions of others.",
    "Every number comes from one version of the queries and of the judge, which is named beside "
    "it. Submissions to another version are listed without a rank.",
    "Ranges of ranks and intervals come first. If ranges overlap, the order is not known.",
)
"""Rules that every board has, in the words of the page."""

_AHEAD = timedelta(hours=14)  # the earliest time zone is 14 hours ahead of UTC
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "5": "s", "8": "b", "2": "z"})


def check_board(
    board: BoardFolder, previous: Manifest | None = None, *, today: date | None = None
) -> list[str]:
    """Return all problems of a board; the list is empty if the board may be published.

    Args:
        board: The board.
        previous: Earlier state of the board. Without it, removed and changed submissions are not
            detected.
        today: The current day; submissions with a later date are a problem. By default the day in
            the earliest time zone, UTC+14, so that a submitter's local date is never too late.

    Raises:
        MirageError: The queries of the board cannot be read.
    """
    today = (datetime.now(UTC) + _AHEAD).date() if today is None else today
    problems = [*board.unreadable, *_check_versions(board), *_check_votes(board)]
    for entry in board.entries:
        if entry.record.date > today:
            problems.append(
                f"{entry.path}/submission.json, field 'date': {entry.record.date} is in the future"
            )
        for code in entry.record.data:
            problems += _check_data(board, entry, code)
    problems += _check_names(board)
    problems += [
        f"{board.path / BOARD_FILE}, field 'removed': {removal.id!r} still has a folder"
        for removal in board.file.removed
        if (board.path / "submissions" / removal.id).exists()
    ]
    problems += [*_check_copies(board), *_check_repeats(board)]
    if previous is not None:
        problems += _check_history(board, previous)
    return problems


def new_problems(before: BoardFolder, now: BoardFolder) -> list[str]:
    """Return the problems of a board that an earlier state of it does not have.

    Args:
        before: The earlier state.
        now: The current state.
    """
    problems = check_board(now)
    known = set(check_board(before)) if problems else set()
    return [problem for problem in problems if problem not in known]


# One submission -----------------------------------------------------------------------------------


def _check_data(board: BoardFolder, entry: Entry, code: str) -> Iterator[str]:
    """Yield the problems that a submission's responses in one language have."""
    where = f"{entry.path}/submission.json, field 'data.{code}'"
    digest, version = entry.record.data[code], board.file.versions.get(code)
    if version is None or digest != version.data:
        was_valid = any(
            (old.language, old.data) == (code, digest) and entry.record.date <= old.until
            for old in board.file.earlier
        )
        if was_valid:
            return
        if version is None:
            yield (
                f"{where}: the board does not have the language {code!r}; it has "
                f"{', '.join(board.file.versions)}"
            )
        else:
            yield (
                f"{where}: the responses answer other queries ({digest[:12]}) than those of "
                f"the board ({version.data[:12]}); answer the queries of the board"
            )
        return
    queries = {query.id: query for query in board.datasets[code]}
    file = entry.path / f"{code}.jsonl"
    for where, response in entry.answers[code]:
        query = queries.get(response.query_id)
        if query is None:
            yield f"{where}: the board has no query {response.query_id!r}"
            continue
        strangers = set(query.shown_to(response)) - set(query.passage_ids)
        if response.passages or strangers:
            yield (
                f"{where}: the response has passages of its own; answer from the passages of the "
                "query"
            )
        if response.text is not None and gold_leaks(response.text, query):
            yield f"{where}: the response contains fields or spellings of the ground truth"
    answered = {answer.response.query_id for answer in entry.answers[code]}
    missing = [id_ for id_ in queries if id_ not in answered]
    if missing:
        yield (
            f"{file}: {len(missing)} of {len(queries)} queries have no line, such as "
            f'{missing[0]!r}; if the system failed, write {{"query_id": ..., "text": null, '
            '"error": ...}'
        )
    elif all(answer.response.text is None for answer in entry.answers[code]):
        yield f"{file}: the system failed on every query"


def skeleton(name: str) -> str:
    """Normalise a name, so that names that look alike become equal.

    Example:
        >>> skeleton("GPT-4 Turbo") == skeleton("gpt4turb0")
        True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return re.sub(r"[\W_]", "", folded).translate(_ALIKE)


def _check_names(board: BoardFolder) -> Iterator[str]:
    """Yield a problem for each name that can be mistaken for another one.

    Two submitters must not use similar names for their systems. Names of submitters must differ
    clearly or be equal.
    """
    owners: dict[str, Entry] = {}
    spellings: dict[str, Entry] = {}
    for entry in board.entries:
        where = f"{entry.path}/submission.json"
        owner = owners.setdefault(skeleton(entry.record.model), entry)
        if owner.record.submitter != entry.record.submitter:
            yield (
                f"{where}, field 'model': {entry.record.model!r} looks like {owner.record.model!r} "
                f"of {owner.record.submitter} ({owner.id}); choose another name"
            )
        first = spellings.setdefault(skeleton(entry.record.submitter), entry)
        if first.record.submitter != entry.record.submitter:
            yield (
                f"{where}, field 'submitter': {entry.record.submitter!r} looks like "
                f"{first.record.submitter!r} ({first.id}); use the same spelling"
            )


def _check_copies(board: BoardFolder) -> Iterator[str]:
    """Yield a problem for each submission that copies references or responses of others."""
    submitters = {entry.id: skeleton(entry.record.submitter) for entry in board.entries}
    for code in board.file.versions:
        copies = Copies(board.datasets[code])
        for entry in board.ranked(code):
            file = entry.path / f"{code}.jsonl"
            of_reference = copies.of_references(entry.run(code))
            if of_reference:
                yield (
                    f"{file}: {len(of_reference)} responses repeat words of the reference that no "
                    f"passage has, such as the one to {of_reference[0]!r}"
                )
            for other, same, of in copies.of_earlier(entry):
                # A new version of a system gives most responses of the old one again.
                if submitters[other] != submitters[entry.id]:
                    yield (
                        f"{file}: {same} of {of} distinctive responses equal those of {other}, "
                        "which someone else submitted; submit only responses of your own system"
                    )


def _check_repeats(board: BoardFolder) -> Iterator[str]:
    """Yield a problem for each submission that repeats an earlier one of its submitter."""
    first: dict[tuple[object, ...], Entry] = {}
    for entry in board.entries:
        texts = (
            (code, answer.response.query_id, answer.response.text)
            for code, answers in entry.answers.items()
            for answer in answers
        )
        earlier = first.setdefault((skeleton(entry.record.submitter), frozenset(texts)), entry)
        if earlier is not entry:
            yield f"{entry.path}: all responses equal those of {earlier.id}; submit each run once"


# The board ----------------------------------------------------------------------------------------


def _check_versions(board: BoardFolder) -> Iterator[str]:
    where = board.path / BOARD_FILE
    for code, pinned in board.file.versions.items():
        installed = current_version(board.file, board.datasets[code])
        for field in Version.model_fields:
            states, has = getattr(pinned, field), getattr(installed, field)
            if states != has:
                yield (
                    f"{where}, field 'versions.{code}.{field}': the board states {states!r}, but "
                    f"this installation has {has!r}; install the version of the board, or move the "
                    "old version to 'earlier' and state the new one"
                )
        if board.file.judge == SURROGATE and (board.path / "queries" / f"{code}.jsonl").exists():
            yield (
                f"{where}, field 'judge': your own queries need the name of a judge and its votes "
                f"in judgments/{code}.jsonl, because the surrogate knows only the bundled queries"
            )


def _check_votes(board: BoardFolder) -> Iterator[str]:
    """Yield a problem for each vote by a judge or on a submission that the board does not have."""
    if board.file.judge == SURROGATE:
        return
    for code in board.file.versions:
        ids = {entry.id for entry in board.ranked(code)}
        try:
            for where, row in read_rows(board.votes_path(code)):
                if row.get("judge") != board.file.judge:
                    yield f"{where}: the vote is not from the board's judge, {board.file.judge!r}"
                unknown = {row.get("model_a"), row.get("model_b")} - ids
                if unknown:
                    yield f"{where}: there is no submission {min(map(str, unknown))!r} in {code}"
        except MirageError as error:
            yield str(error)


def _check_history(board: BoardFolder, previous: Manifest) -> Iterator[str]:
    """Yield a problem for each change since ``previous`` that the board file does not declare."""
    where = board.path / BOARD_FILE
    now = board.manifest()
    removed = {(removal.id, removal.model, removal.submitter) for removal in board.file.removed}
    for id_, mark in previous.submissions.items():
        if id_ not in now.submissions:
            is_listed = (id_, mark.model, mark.submitter) in removed
            if not is_listed and not (board.path / "submissions" / id_).exists():
                yield (
                    f"{where}, field 'removed': submission {id_!r} ({mark.model} of "
                    f"{mark.submitter}, {mark.date}) is gone; restore it, or list it with the day "
                    "and the reason"
                )
        elif now.submissions[id_].digest != mark.digest:
            yield (
                f"{board.path}/submissions/{id_}: the submission changed after it was accepted; "
                "restore it, and add the new run as a new submission"
            )
    for name in ("removed", "earlier"):
        lost = [old for old in getattr(previous, name) if old not in getattr(now, name)]
        for old in lost:
            yield f"{where}, field {name!r}: this entry was deleted or changed: {old!r}"
    earlier = {(old.language, old.data, old.judge) for old in now.earlier}
    for code, version in previous.versions.items():
        current = now.versions.get(code)
        if current != version and (code, version.data, version.judge) not in earlier:
            yield (
                f"{where}, field 'versions.{code}': the version changed; list the old one "
                f"({version.data[:12]}, {version.judge}) in 'earlier' with the reason"
            )


# Marks --------------------------------------------------------------------------------------------


def tries(board: BoardFolder) -> Mapping[str, tuple[int, int]]:
    """Count the submissions of each submitter, and number them by date.

    Args:
        board: The board.

    Returns:
        The number of each submission, from 1, and the total number of its submitter's submissions,
        by submission id. Removed submissions are counted too, and come first.
    """
    counts = Counter(skeleton(removal.submitter) for removal in board.file.removed)
    totals = counts + Counter(skeleton(entry.record.submitter) for entry in board.entries)
    numbers = {}
    for entry in board.entries:
        submitter = skeleton(entry.record.submitter)
        counts[submitter] += 1
        numbers[entry.id] = (counts[submitter], totals[submitter])
    return numbers


_TO_A_JUDGE = re.compile(r"\[\[(?:[ABC]|tie|\d+)\]\]|<\|[^|\s]{1,40}\|>|\[/?INST\]", re.IGNORECASE)
_SUSPICIOUS: Mapping[str, Callable[[str], bool]] = {
    "hidden characters": lambda text: visible(text) != text,
    "verdicts or control tokens, as if to a judge": lambda text: bool(_TO_A_JUDGE.search(text)),
}


def marks(board: BoardFolder, code: str) -> Mapping[str, list[str]]:
    """Return the remarks that the page shows on submissions in a language, by submission id.

    Remarks report responses that equal those of another submission, contain hidden characters, or
    contain text addressed to a judge, such as verdicts.

    Args:
        board: The board.
        code: Language code.
    """
    copies = Copies(board.datasets[code])
    remarks: dict[str, list[str]] = defaultdict(list)
    for entry in board.ranked(code):
        for other, same, of in copies.of_earlier(entry, share=copies.SHOWN):
            remarks[entry.id].append(f"{same} of {of} distinctive responses equal those of {other}")
        texts = [answer.response.text or "" for answer in entry.answers[code]]
        for words, is_suspicious in _SUSPICIOUS.items():
            count = sum(map(is_suspicious, texts))
            if count:
                remarks[entry.id].append(f"{count} responses contain {words}")
    return remarks
