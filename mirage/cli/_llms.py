"""Create LLM clients from the options of a command, and list the models of an endpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirage.cli._inputs import file_of, named_numbers, named_texts
from mirage.errors import MirageError, UnknownNameError

if TYPE_CHECKING:
    from mirage.llm import LLM, Budget
    from mirage.llm.budget import Usage

BUDGETS = ("calls", "tokens", "cost")
TIMEOUT_S = 3.0


# Settings -----------------------------------------------------------------------------------------


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _whole_or_zero(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _yes_or_no(text: str) -> bool | None:
    return {"yes": True, "no": False}.get(text)


def prompt_of(path: Path | None) -> str | None:
    """Return the prompt in a file, without white space around it; ``None`` without a file."""
    if path is None:
        return None
    from mirage._base.inputs import read_text

    return read_text(file_of(path)).strip()


def pair_of(option: str, text: str) -> tuple[float, float]:
    """Return the prices of a million input and output tokens from a text such as ``2.5,10``.

    ``option`` is the name of the option, for error messages.
    """
    try:
        first, second = map(float, text.split(","))
    except ValueError:
        raise MirageError(
            f"{option} {text!r}: expected two prices, of input and output tokens, such as 2.5,10"
        ) from None
    return first, second


_PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "key_from": (str, "the name of an environment variable"),
    "max_tokens": (_whole, "a whole number above 0"),
    "temperature": (_number, "a number"),
    "concurrency": (_whole, "a whole number above 0"),
    "retries": (_whole_or_zero, "a whole number of at least 0"),
    "price": (str, ""),
    "cache": (_yes_or_no, "yes or no"),
}


class LLMSettings:
    """Settings of the LLM clients of a command.

    Args:
        texts: Values of ``--llm``, such as ``max_tokens=1024``.
        base_url: Values of ``--base-url``.
        budget: Values of ``--budget``, such as ``cost=5``.
        **defaults: Settings to use if ``--llm`` does not set them.
    """

    def __init__(
        self,
        texts: Iterable[str] | None,
        base_url: Sequence[str] | str | None = None,
        budget: Iterable[str] | None = None,
        **defaults: Any,
    ) -> None:
        settings = defaults | _parse_settings(texts or ())
        self.key_from: str | None = settings.pop("key_from", None)
        self.base_url = base_url
        self._budget = budget_of(budget)
        self._settings = settings

    @property
    def cache(self) -> bool:
        """Whether answers are cached on disk."""
        return bool(self._settings.get("cache", True))

    @property
    def concurrency(self) -> int:
        """The number of parallel calls."""
        return int(self._settings.get("concurrency", 8))

    @property
    def retries(self) -> int:
        """The maximum number of retries of a call."""
        return int(self._settings.get("retries", 5))

    def key(self) -> str | None:
        """Return the API key in the environment variable that ``--llm key_from=`` names, if any."""
        return _key_in(self.key_from)

    def llm(self, model: str, base_url: Sequence[str] | str | None = None) -> LLM:
        """Return the client of a model; all clients share one budget.

        ``base_url`` is the endpoint, by default that of the command's ``--base-url``.
        """
        from mirage.llm import LLM

        url = self.base_url if base_url is None else base_url
        return LLM(model, base_url=url, api_key=self.key(), budget=self._budget, **self._settings)


def usage_of(llms: Iterable[LLM]) -> Usage:
    """Return what several LLMs have used together."""
    from mirage.llm.budget import Usage

    parts = [asdict(llm.usage) for llm in llms]
    return Usage(**{name: sum(part[name] for part in parts) for name in parts[0]})


def _parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name, text in named_texts("--llm", texts, "NAME=VALUE, such as max_tokens=1024").items():
        if name not in _PARSERS:
            raise UnknownNameError("LLM setting", name, _PARSERS)
        parse, expected = _PARSERS[name]
        settings[name] = parse(text)
        if settings[name] is None:
            raise MirageError(f"--llm {name}={text}: expected {expected}")
    if "price" in settings:
        from mirage.llm import Price

        settings["price"] = Price(*pair_of("--llm price", settings["price"]))
    return settings


def _key_in(variable: str | None) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if key:
        return key
    similar = [name for name in os.environ if name.upper().endswith(("KEY", "TOKEN"))]
    if similar:
        raise UnknownNameError("environment variable", variable, sorted(similar))
    raise MirageError(f"the environment variable {variable} is not set; set it to the API key")


def budget_of(texts: Iterable[str] | None) -> Budget | None:
    """Return the budget from texts such as ``cost=5``; ``None`` if there are no texts."""
    caps: dict[str, Any] = dict(named_numbers("--budget", texts))
    for name in caps:
        if name not in BUDGETS:
            raise UnknownNameError("kind of budget", name, BUDGETS)
    if not caps:
        return None
    from mirage.llm import Budget

    whole = {name: int(cap) for name, cap in caps.items() if name != "cost"}
    return Budget(**{**caps, **whole})


# Models of an endpoint ----------------------------------------------------------------------------


class Answer(NamedTuple):
    """The outcome of asking an endpoint for its models.

    Attributes:
        ok: Whether the endpoint answers with an HTTP status below 500.
        reason: A description of the answer, or of the failure.
        models: Names of the models; ``None`` if the endpoint named none.
    """

    ok: bool
    reason: str
    models: list[str] | None = None


def ask_for_models(url: str, key: str | None = None) -> Answer:
    """Ask an endpoint for the names of its models, at ``URL/models``.

    Any HTTP status below 500 means that the endpoint works, even if it requires a key.
    """
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
        return Answer(True, f"answers, but requires a key (HTTP {status})")
    models = _models(answer)
    if status == 200 and models is not None:
        return Answer(True, f"answers, with {len(models)} models", models)
    return Answer(status < 500, f"answers with HTTP {status}, but does not list its models")


def _models(answer: Any) -> list[str] | None:
    try:
        return [str(model["id"]) for model in answer.json()["data"]]
    except (ValueError, KeyError, TypeError):
        return None


@contextmanager
def naming_models(llms: Sequence[LLM], settings: LLMSettings) -> Iterator[None]:
    """Context manager that suggests a similar model if the endpoint lacks a model of ``llms``.

    It replaces an HTTP 404 error, if the endpoint lists its models.
    """
    try:
        yield
    except MirageError as error:
        if not llms or "HTTP 404" not in str(error):
            raise
        url = llms[0].endpoint
        models = ask_for_models(url, settings.key()).models or []
        unknown = next((llm.model for llm in llms if models and llm.model not in models), None)
        if unknown is None:
            raise
        raise UnknownNameError("model", unknown, models, f"at {url}") from None
