"""Documents of a made-up town, and a stand-in LLM: the first guide, without a key or a network.

    python examples/from_documents.py [PORT]

writes handbook/, 80 short documents, and answers at http://127.0.0.1:8765/v1 as an LLM would, until
Ctrl-C. The steps of docs/guides/first-gate.md then run in another terminal, in the same folder.
The stand-in reads what is asked for in a prompt, and the facts in the passages that it shows, and
knows nothing else. Like an LLM it makes mistakes: some of the items that it writes are wrong, and
now and then it overlooks what a passage says.
"""

from __future__ import annotations

import argparse
import json
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any

QUARTERS = (
    "Harbour", "Garden", "Castle", "Mill", "River",
    "Market", "Station", "Tower", "Bridge", "Forest",
)  # fmt: skip
HOUSES = ("Museum", "Library", "Theatre", "Baths", "Archive", "Hall", "School", "Chapel")
FIRST = ("Ada", "Bruno", "Clara", "David", "Edith", "Frank", "Greta", "Henry")
LAST = (
    "Brandt", "Collins", "Dufour", "Ekman", "Farrell",
    "Grant", "Holm", "Ivers", "Jansen", "Keller",
)  # fmt: skip
TREES = ("Ash", "Beech", "Cedar", "Elm", "Linden", "Maple", "Oak", "Willow")
BIRDS = ("Crane", "Falcon", "Heron", "Lark", "Raven", "Robin", "Swan", "Wren")

TEXT = """\
# {name}

The {name} opened in {year}, in a warehouse that the council had bought from a timber merchant. It \
was designed by {architect}, who lived across the street. Groups of children pay nothing if they \
write two weeks ahead, and find the desk behind the second door. Its halls are called {tree} Room \
and {bird} Room.
"""


def write_handbook(folder: Path) -> None:
    """The documents, one a house."""
    folder.mkdir(exist_ok=True)
    for number, (quarter, house) in enumerate(product(QUARTERS, HOUSES)):
        text = TEXT.format(
            name=f"{quarter} {house}",
            year=1813 + 2 * number,
            architect=f"{FIRST[number % 8]} {LAST[number // 8]}",
            tree=TREES[number % 8],
            bird=BIRDS[(number + number // 8) % 8],
        )
        (folder / f"{quarter}-{house}.md".lower()).write_text(text, encoding="utf-8")


# What a prompt asks, and what it shows ------------------------------------------------------------

OPENED, DESIGNED = "In which year did the {} open?", "Who designed the {}?"
HALLS, STEPS = "What are the two halls of the {} called?", "How many steps lead up to the {}?"
EARLIER = "Which opened earlier, the {} or the {}?"
OLDER = "Who designed the older of the two, the {} or the {}?"
SENTENCES = {
    OPENED: "The {} opened in {answer} {cited}.",
    DESIGNED: "The {} was designed by {answer} {cited}.",
    HALLS: "The halls of the {} are called {answer} {cited}.",
    STEPS: "The passages do not say how many steps lead up to the {}.",
    EARLIER: "The {answer} opened earlier {cited}.",
    OLDER: "{answer} designed the older of the two {cited}.",
}
WITHOUT = "The passages do not tell the answer."
FACTS = {
    "year": re.compile(r"opened in (\d+)"),
    "architect": re.compile(r"designed by (\w+ \w+)"),
    "tree": re.compile(r"halls are called (\w+ Room)"),
    "bird": re.compile(r"halls are called \w+ Room and (\w+ Room)"),
}
Houses = dict[str, dict[str, str]]


def asked_in(prompt: str) -> tuple[str, list[str]]:
    """The form of the question in a prompt, and the houses that it names."""
    for form in SENTENCES:
        pattern = re.escape(form).replace(r"\{\}", r"(\w+ \w+)")
        match = re.search(pattern, prompt)
        if match:
            return form, list(match.groups())
    return STEPS, []


def houses_in(prompt: str) -> Houses:
    """By its name what the passages of a prompt say of each house."""
    houses = {}
    for text in re.split(r"(?=The \w+ \w+ opened in )", prompt)[1:]:
        told = {fact: pattern.search(text) for fact, pattern in FACTS.items()}
        name = " ".join(text.split()[1:3])
        houses[name] = {fact: match[1] for fact, match in told.items() if match}
    return houses


def answers_to(form: str, names: list[str], houses: Houses) -> list[str]:
    """The short answers to a question, none where the passages do not tell."""
    facts = [houses.get(name, {}) for name in names]
    if form == STEPS or not all("year" in each for each in facts):
        return []
    older = min(names, key=lambda name: houses[name]["year"])
    by_form: dict[str, list[str | None]] = {
        OPENED: [facts[0]["year"]],
        DESIGNED: [facts[0].get("architect")],
        HALLS: [facts[0].get("tree"), facts[0].get("bird")],
        EARLIER: [older],
        OLDER: [houses[older].get("architect")],
    }
    answers = by_form[form]
    return [answer for answer in answers if answer] if all(answers) else []


def digest(*parts: object) -> int:
    """A number that is the same for the same parts, today and tomorrow."""
    return zlib.crc32(" ".join(map(str, parts)).encode())


# What it says -------------------------------------------------------------------------------------


def reply(request: Mapping[str, Any]) -> str:
    """What the stand-in says to a chat."""
    prompt = " ".join("\n".join(one["content"] for one in request["messages"]).split())
    houses = houses_in(prompt)
    if prompt.startswith("You write an item"):
        return json.dumps(item(prompt, houses))
    form, names = asked_in(prompt)
    answers = answers_to(form, names, houses)
    model = request["model"]
    if digest(model, form, *names, request.get("seed")) % OVERLOOKS.get(model, 40) == 0:
        answers = []
    if "JSON object" in prompt:
        return json.dumps({"answer": "; ".join(answers) or None})
    if not answers and form != STEPS:
        return WITHOUT
    cited = "".join(f"[{name.lower().replace(' ', '-')}.md]" for name in names)
    return SENTENCES[form].format(*names, answer=" and ".join(answers), cited=cited)


OVERLOOKS = {"gpt-4o-mini": 15, "gpt-4.1-nano": 8}  # one in so many; of others, one in 40
KINDS = {  # by how the rule for items of a kind begins
    "Ask for one fact": DESIGNED,
    "Ask for two to five": HALLS,
    "Ask for a date": OPENED,
    "Ask something that takes both": OLDER,
    "Ask which of two": EARLIER,
    "Ask something that the passage seems": STEPS,
}


def item(prompt: str, houses: Houses) -> dict[str, Any]:
    """An item of the kind that is asked for, mostly a sound one."""
    form = next(form for rule, form in KINDS.items() if rule in prompt)
    names = list(houses)
    question, answers = form.format(*names), answers_to(form, names, houses)
    wrong = {
        OPENED: [str(int(houses[names[0]]["year"]) + years) for years in (10, -2)],
        DESIGNED: ["Ida Falk", "Otto Lind"],
        HALLS: ["Pine Room", "Eagle Room"],
        STEPS: [],
        EARLIER: [name for name in names if name not in answers],
        OLDER: ["Ida Falk", "Otto Lind"],
    }[form]
    mistake = digest(question) % 12 if "nothing yet" in prompt else None
    if mistake == 0 and answers:
        question += f" In {answers[0]}?"
    if mistake == 1 and answers:
        answers = wrong[:1]
    if mistake == 2:
        question = f"Wer hat die Treppe gebaut, die vor dem Haus steht: {names[0]}?"
    cited = "".join(f" [{number}]" for number, _ in enumerate(names, 1))
    return {
        "question": question,
        "answers": [[answer] for answer in answers],
        "wrong_answers": [[answer] for answer in wrong],
        "reason": f"The passages say what they say of the {' and the '.join(names)}.",
        "answer": SENTENCES[form].format(*names, answer=" and ".join(answers), cited=cited.strip()),
    }


class Endpoint(BaseHTTPRequestHandler):
    """POST /v1/chat/completions, as OpenAI's protocol has it."""

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
        """Be silent."""


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
        print("Ctrl-C ends the stand-in.", flush=True)
        server.serve_forever()
