"""LLMs as commands name them: an endpoint, a key in the environment, limits; and their models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from mirage.cli._inputs import named_numbers
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.llm import LLM, Budget, Price

__all__ = ["Answer", "ask_for_models", "budget_of", "key_in", "llms_of", "naming_models", "pair_of"]

BUDGETS = ("calls", "tokens", "cost")
TIMEOUT_S = 3.0


def llms_of(
    models: Iterable[str],
    base_url: str | Sequence[str] | None,
    key_from: str | None,
    *,
    budget: Iterable[str] | None,
    price: str | None,
    **settings: Any,
) -> list[LLM]:
    """The LLMs of these names at one endpoint, which share one budget."""
    from mirage.llm import LLM

    shared = {"budget": budget_of(budget), "price": _price(price), **settings}
    key = key_in(key_from)
    return [LLM(model, base_url=base_url or None, api_key=key, **shared) for model in models]


def key_in(variable: str | None) -> str | None:
    """The key in a variable of the environment."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if key:
        return key
    alike = [name for name in os.environ if name.upper().endswith(("KEY", "TOKEN"))]
    if alike:
        raise UnknownNameError("environment variable with a key:", variable, sorted(alike))
    raise MirageError(f"the environment variable {variable} is not set; set it to the key")


def budget_of(texts: Iterable[str] | None) -> Budget | None:
    """The budget that options of the form WHAT=NUMBER give, if any."""
    caps: dict[str, Any] = dict(named_numbers("--budget", texts))
    for name in caps:
        if name not in BUDGETS:
            raise UnknownNameError("kind of budget", name, BUDGETS)
    if not caps:
        return None
    from mirage.llm import Budget

    whole = {name: int(cap) for name, cap in caps.items() if name != "cost"}
    return Budget(**{**caps, **whole})


def _price(text: str | None) -> Price | None:
    if text is None:
        return None
    from mirage.llm import Price

    return Price(*pair_of("--price", text))


def pair_of(
    option: str, text: str, words: str = "of input and of output, such as 2.5,10"
) -> tuple[float, float]:
    """Two numbers with a comma between."""
    try:
        first, second = map(float, text.split(","))
    except ValueError:
        raise MirageError(f"{option} {text!r}: expected two numbers, {words}") from None
    return first, second


# Models of an endpoint ----------------------------------------------------------------------------


class Answer(NamedTuple):
    """What came of asking an endpoint for its models; ``None`` where it named none."""

    ok: bool
    reason: str
    models: list[str] | None = None


def ask_for_models(url: str, key: str | None = None) -> Answer:
    """Ask ``URL/models``; anything below HTTP 500 is an answer, such as that it wants a key."""
    import httpx

    from mirage.llm.endpoints import checked_url, short, tls

    address = checked_url(url).rstrip("/") + "/models"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(address, headers=headers, timeout=TIMEOUT_S, verify=tls(httpx.Client))
    except httpx.HTTPError as error:
        return Answer(False, f"no answer ({short(str(error)) or type(error).__name__})")
    status = answer.status_code
    if status in (401, 403):
        return Answer(True, f"answers, and wants a key (HTTP {status})")
    models = _models(answer)
    if status == 200 and models is not None:
        return Answer(True, f"answers, with {len(models)} models", models)
    return Answer(status < 500, f"answers with HTTP {status}, and names no models")


def _models(answer: Any) -> list[str] | None:
    try:
        return [str(model["id"]) for model in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return None


@contextmanager
def naming_models(llms: Sequence[LLM], key_from: str | None) -> Iterator[None]:
    """Where an endpoint does not know a model, say the nearest that it has."""
    try:
        yield
    except MirageError as error:
        if not llms or "HTTP 404" not in str(error):
            raise
        url = llms[0].endpoint
        known = ask_for_models(url, key_in(key_from)).models or []
        unknown = next((llm.model for llm in llms if known and llm.model not in known), None)
        if unknown is None:
            raise
        raise UnknownNameError(f"model at {url}:", unknown, known) from None
