"""Which models an endpoint has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mirage.errors import MirageError, UnknownNameError

__all__ = ["Answer", "ask_for_models", "naming_models"]

TIMEOUT_S = 3.0


class Answer(NamedTuple):
    """What came of asking an endpoint for its models; ``None`` where it named none."""

    ok: bool
    reason: str
    models: list[str] | None = None


def ask_for_models(url: str, key: str | None = None) -> Answer:
    """Ask ``URL/models``; anything below HTTP 500 is an answer, such as that it wants a key.

    Raises:
        ValueError: it is no address, or holds a secret.
    """
    import httpx

    from mirage.llm._endpoints import checked_url, short, tls

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


def _models(answer: object) -> list[str] | None:
    try:
        return [str(model["id"]) for model in answer.json()["data"]]  # type: ignore[attr-defined]
    except (ValueError, KeyError, TypeError):
        return None


@contextmanager
def naming_models(url: str, names: list[str], key: str | None) -> Iterator[None]:
    """Where an endpoint does not know a model, say the nearest that it has."""
    try:
        yield
    except MirageError as error:
        if "HTTP 404" not in str(error):
            raise
        known = ask_for_models(url, key).models or []
        unknown = next((name for name in names if known and name not in known), None)
        if unknown is None:
            raise
        raise UnknownNameError(f"model at {url}:", unknown, known) from None
