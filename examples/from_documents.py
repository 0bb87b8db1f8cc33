"""Documents of a made-up town, and a simulated LLM: the first guide, without a key or a network.

    python examples/from_documents.py [PORT]

The script writes handbook/, 80 documents of about 270 words, and serves a simulated LLM at
http://127.0.0.1:8765/v1 until Ctrl-C. Run the steps of docs/guides/first-gate.md in another
terminal, in the same folder. The simulated LLM only knows the question and the facts in a prompt.
Like a real LLM it makes mistakes: some of the items that it writes are wrong, and sometimes it
overlooks a fact.
"""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

QUARTERS = (
    "Harbour", "Garden", "Castle", "Mill", "River",
    "Market", "Station", "Tower", "Bridge", "Forest",
)  # fmt: skip
PURPOSES = {
    "Museum": "It shows nets, ship models, a loom, and the bell of a ferry that ran aground in "
    "fog.",
    "Library": "It lends novels, maps and sheet music, and keeps every newspaper of the town in a "
    "cool cellar.",
    "Theatre": "It plays comedies in winter and puppet shows in spring, and rents its costumes to "
    "wedding parties.",
    "Baths": "It has a pool, a steam room and a garden with deck chairs, and is heated by the "
    "bakery next door.",
    "Archive": "It keeps letters, deeds and building plans, and helps families to trace their "
    "great-grandparents.",
    "Hall": "It serves for concerts, fairs and weddings, and on rainy Sundays for a dance.",
    "School": "It teaches crafts in the evening, from bookbinding to boat repair, to anybody with "
    "some patience.",
    "Chapel": "It is used for concerts of old music and for quiet hours at noon, and volunteers "
    "mended its organ.",
}
ARCHITECTS = ("Ada", "Bruno", "Clara", "David", "Edith", "Frank", "Greta", "Henry")
GUIDES = ("Ines", "Jonas", "Karla", "Leon", "Marta", "Nils", "Olga", "Paul")
COOKS = ("Rosa", "Simon", "Tilda", "Ulrich", "Vera", "Walter", "Yvonne", "Zeno")
LAST = (
    "Brandt", "Collins", "Dufour", "Ekman", "Farrell",
    "Grant", "Holm", "Ivers", "Jansen", "Keller",
)  # fmt: skip
DAYS = [*combinations(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"), 2)]
TREES = ("Ash", "Beech", "Cedar", "Elm", "Linden", "Maple", "Oak", "Willow")
BIRDS = ("Crane", "Falcon", "Heron", "Lark", "Raven", "Robin", "Swan", "Wren")

TEXT = """\
# {name}

The {name} opened in {year}, in a warehouse that the council had bought from a timber merchant. \
{architect} designed it for half the usual fee, and came to the building site every morning. \
{purpose} The town paid for the roof with a lottery, and the shopkeepers of the quarter \
gave the clock above the door. {crowds}When the river rose, neighbours carried the \
furniture up to the attic.

## Visiting

The house is closed on {first_day} and {second_day}. On all other days the desk behind the second \
door sells tickets, and a ticket costs {price} crowns. Groups of children pay nothing if they \
write some weeks ahead. {guide} has led the tours since {tours}; they begin under the clock and \
end in the courtyard. A lift takes wheelchairs and prams to every floor. {places}\
Bags and wet coats stay in the cloakroom. Dogs wait in the yard, with water and a roof.

## Café and halls

The café was added in {café}, in what had been the coal cellar, and {cook} has run it ever \
since. It serves soup and plum cake, and opens its windows to the courtyard as soon as the frost \
is over. {loaves}The halls can be hired for readings, birthdays and meetings: whoever wants them \
asks at the desk, pays half in advance and returns the keys on the next morning. They are called \
{tree} Room and {bird} Room.
"""
# Each document has one of these, so that not all have most of their numbers in the same section.
EXTRAS = {
    "crowds": "On the first day {} people came, and a band of {} played until midnight. ",
    "places": "In a year {} people take a tour, in groups of {}. ",
    "loaves": "In its best week it sold {} slices of cake, baked by {} people. ",
}


def write_handbook(folder: Path) -> None:
    """Write the documents, one for each house."""
    folder.mkdir(exist_ok=True)
    for number, (quarter, house) in enumerate(product(QUARTERS, PURPOSES)):
        text = TEXT.format(
            name=f"{quarter} {house}", purpose=PURPOSES[house], **facts_of(number), **extras(number)
        )
        (folder / f"{quarter}-{house}.md".lower()).write_text(text, encoding="utf-8")


def facts_of(number: int) -> dict[str, object]:
    """Return the facts on a house; no two houses share a person."""
    row, column = divmod(number, 8)
    first_day, second_day = DAYS[(number + row) % 10]
    return {
        "year": 1813 + 2 * number,
        "architect": f"{ARCHITECTS[column]} {LAST[row]}",
        "first_day": first_day,
        "second_day": second_day,
        "price": 3 + number % 11,
        "guide": f"{GUIDES[column]} {LAST[row - 3]}",
        "tours": 1990 + 2 * (5 * number % 16),
        "café": 1991 + 2 * (7 * number % 15),
        "cook": f"{COOKS[column]} {LAST[row - 6]}",
        "tree": TREES[column],
        "bird": BIRDS[(number + row) % 8],
    }


def extras(number: int) -> dict[str, str]:
    """Return one more sentence for one of the sections on a house, and none for the others."""
    place = [*EXTRAS][number % 3]
    return dict.fromkeys(EXTRAS, "") | {place: EXTRAS[place].format(340 + 7 * number, 6 + number)}


# What a prompt asks, and what it shows ------------------------------------------------------------


class Form(NamedTuple):
    """A form of questions on a house, with the answer as a sentence, facts and wrong answers."""

    question: str
    sentence: str
    facts: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


PEOPLE, YEARS, SUMS = ("Ida Falk", "Otto Lind"), ("1788", "1803"), ("2 crowns", "19 crowns")
WEEKEND, ROOMS = ("Saturday", "Sunday"), ("Pine Room", "Eagle Room")
TWO_DAYS, TWO_HALLS = ("first_day", "second_day"), ("tree", "bird")
OPENED = Form("In which year did the {} open?", "The {} opened in", ("year",), YEARS)
DESIGNED = Form("Who designed the {}?", "The {} was designed by", ("architect",), PEOPLE)
CLOSED = Form("On which days is the {} closed?", "The {} is closed on", TWO_DAYS, WEEKEND)
TICKET = Form("How much is a ticket to the {}?", "A ticket to the {} costs", ("price",), SUMS)
GUIDE = Form("Who leads the tours of the {}?", "The tours of the {} are led by", ("guide",), PEOPLE)
CAFE = Form("When did the {} get its café?", "The {} got its café in", ("café",), YEARS)
COOK = Form("Who runs the café of the {}?", "The café of the {} is run by", ("cook",), PEOPLE)
HALLS = Form("What are the halls of the {} called?", "The halls of the {} are", TWO_HALLS, ROOMS)
EARLIER = Form("Who came to the {} earlier, {} or {}?", "The first who came to the {} was")
STEPS = Form(
    "How many steps lead up to the {}?", "The passages do not say how many steps the {} has"
)
FORMS = (OPENED, DESIGNED, CLOSED, TICKET, GUIDE, CAFE, COOK, HALLS, EARLIER, STEPS)
WITHOUT = "The passages do not tell the answer."

FACTS = {
    "year": re.compile(r"opened in (\d+)"),
    "architect": re.compile(r"(\w+ \w+) designed it for"),
    "first_day": re.compile(r"closed on (\w+) and \w+day"),
    "second_day": re.compile(r"closed on \w+ and (\w+day)"),
    "price": re.compile(r"costs (\d+ crowns)"),
    "guide": re.compile(r"(\w+ \w+) has led the tours"),
    "tours": re.compile(r"led the tours since (\d+)"),
    "café": re.compile(r"café was added in (\d+)"),
    "cook": re.compile(r"(\w+ \w+) has run it ever since"),
    "tree": re.compile(r"They are called (\w+ Room)"),
    "bird": re.compile(r"They are called \w+ Room and (\w+ Room)"),
}
SINCE = {"architect": "year", "guide": "tours", "cook": "café"}  # when they came to the house
NAME = re.compile(rf"\b((?:{'|'.join(QUARTERS)}) (?:{'|'.join(PURPOSES)}))\b")
# A question on two passages names a house by somebody whom the first of them names.
BY_PERSON = {"architect": "house that {} designed", "guide": "house in which {} leads the tours"}
Houses = dict[str, dict[str, str]]


class Asked(NamedTuple):
    """A question: its form, the house as the question names it, and the house compared with it."""

    form: Form
    subject: str
    people: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the question in words."""
        return self.form.question.format(self.subject, *self.people)


def question_in(prompt: str) -> Asked:
    """Return the question in a prompt."""
    for form in FORMS:
        match = re.search(re.escape(form.question).replace(r"\{\}", r"([^?]+?)"), prompt)
        if match:
            return Asked(form, match[1], match.groups()[1:])
    return Asked(STEPS, "")


def houses_in(prompt: str) -> Houses:
    """Return the facts on each house in a prompt: those between its name and the next name."""
    houses: Houses = {}
    _, *parts = NAME.split(prompt)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        matches = {fact: pattern.search(text) for fact, pattern in FACTS.items()}
        facts = houses.setdefault(name, {})
        facts |= {fact: match[1] for fact, match in matches.items() if match}
    return houses


def house_of(subject: str, houses: Houses) -> str:
    """Return the name of the house that a question is about; empty if no passage has it."""
    if NAME.fullmatch(subject):
        return subject
    return next(
        (
            name
            for name, facts in houses.items()
            for fact, words in BY_PERSON.items()
            if fact in facts and words.format(facts[fact]) == subject
        ),
        "",
    )


def answers_to(asked: Asked, houses: Houses) -> list[str]:
    """Return the short answers to a question; empty if the passages do not have them."""
    facts = houses.get(house_of(asked.subject, houses), {})
    if asked.people:
        since = {facts.get(role): facts.get(fact) for role, fact in SINCE.items()}
        years = [since.get(person) for person in asked.people]
        return [] if None in years else [min(asked.people, key=lambda person: str(since[person]))]
    if any(fact not in facts for fact in asked.form.facts):
        return []
    return [facts[fact] for fact in asked.form.facts]


def digest(*parts: object) -> int:
    """Return a number that is the same for the same parts in every process."""
    return zlib.crc32(" ".join(map(str, parts)).encode())


# What it says -------------------------------------------------------------------------------------

OVERLOOKS = {"gpt-4o-mini": 15, "gpt-4.1-nano": 10}  # one in so many; other models one in 40


def reply(request: Mapping[str, Any]) -> str:
    """Return the answer of the simulated LLM to a chat."""
    prompt = " ".join("\n".join(message["content"] for message in request["messages"]).split())
    houses = houses_in(prompt)
    if prompt.startswith("You write an item"):
        return json.dumps(item(prompt, houses))
    asked = question_in(prompt)
    answers = answers_to(asked, houses)
    model = request["model"]
    if digest(model, asked.text, request.get("seed")) % OVERLOOKS.get(model, 40) == 0:
        answers = []
    if "JSON object" in prompt:
        return json.dumps({"answer": "; ".join(answers) or None})
    if not answers and asked.form != STEPS:
        return WITHOUT
    document = house_of(asked.subject, houses).lower().replace(" ", "-")
    return sentence(asked, answers, f"[{document}.md]")


def sentence(asked: Asked, answers: list[str], citations: str) -> str:
    """Return an answer in a sentence."""
    words = " and ".join(answers)
    return f"{asked.form.sentence.format(asked.subject)} {words}".rstrip() + f" {citations}."


# What an item of a kind may ask, by how the rule for that kind begins. The first form counts whose
# facts the passages state.
KINDS: dict[str, tuple[Form, ...]] = {
    "Ask for one fact": (COOK, GUIDE, DESIGNED),
    "Ask for two to five": (HALLS, CLOSED),
    "Ask for a date": (CAFE, TICKET, OPENED),
    "Ask something that takes both": (COOK, GUIDE),
    "Ask which of two": (EARLIER,),
    "Ask something that the passage seems": (STEPS,),
}


def question_on(prompt: str, name: str, facts: Mapping[str, str]) -> Asked | None:
    """Return a question of the kind that a prompt asks for, if the passages allow one."""
    rule = next(rule for rule in KINDS if rule in prompt)
    subject, people = name, tuple(facts[role] for role in SINCE if role in facts)
    if "both passages" in prompt:
        person = next((fact for fact in BY_PERSON if fact in facts), None)
        if person is None:
            return None
        subject = BY_PERSON[person].format(facts[person])
    for form in KINDS[rule]:
        if form == EARLIER:
            return Asked(EARLIER, name, people) if len(people) == 2 else None
        if all(fact in facts for fact in form.facts):
            return Asked(form, subject)
    return None


def item(prompt: str, houses: Houses) -> dict[str, Any]:
    """Return an item of the kind that a prompt asks for, in most cases a correct one."""
    name = next(name for name, facts in houses.items() if facts)
    asked = question_on(prompt, name, houses[name])
    if asked is None:
        return {"skip": "The passages state no such fact."}
    question, answers = asked.text, answers_to(asked, houses)
    wrong = [person for person in asked.people if person not in answers] or list(asked.form.wrong)
    mistake = digest(question) % 12 if "nothing yet" in prompt else None
    if mistake == 0 and answers and not asked.people:
        question += f" Is it {answers[0]}?"
    if mistake == 1 and answers:
        answers = wrong[:1]
    if mistake == 2:
        question = f"Wer hat die Treppe gebaut, die vor dem Haus steht: {name}?"
    citations = "[1] [2]" if "passage_2" in prompt else "[1]"
    return {
        "question": question,
        "answers": [[answer] for answer in answers],
        "wrong_answers": [[answer] for answer in wrong],
        "reason": f"The passages state facts on the {name}.",
        "answer": sentence(asked, answers, citations),
    }


class Endpoint(BaseHTTPRequestHandler):
    """A handler of POST /v1/chat/completions with OpenAI's protocol."""

    wbufsize = -1  # head and body leave together

    def do_POST(self) -> None:
        """Answer one chat."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": reply(request)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {"id": "1", "object": "chat.completion", "created": 0, "choices": [choice]}
        body = json.dumps({**completion, "model": request["model"]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("port", default=8765, nargs="?", type=int)
    options = parser.parse_args()
    write_handbook(Path("handbook"))
    with (
        ThreadingHTTPServer(("127.0.0.1", options.port), Endpoint) as server,
        suppress(KeyboardInterrupt),
    ):
        print("handbook/: 80 documents. In another terminal, in this folder:")
        print(
            f"export OPENAI_BASE_URL=http://127.0.0.1:{server.server_port}/v1 OPENAI_API_KEY=none"
        )
        print("Ctrl-C stops the simulated LLM.", flush=True)
        server.serve_forever()
