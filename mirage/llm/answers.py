"""Read the answers of OpenAI-compatible endpoints: texts, embeddings, scores and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from mirage._base.reasoning import split_reasoning
from mirage.errors import LLMError
from mirage.llm.retries import TransientError, transient_status
from mirage.llm.secrets import Secrets

if TYPE_CHECKING:
    from openai import APIStatusError


class AnswerError(LLMError):
    """A model answered, but its answer has no text."""


class RefusalError(AnswerError):
    """A model refused to answer, or a content filter blocked the request or the answer.

    The same request would get the same result, so the judges of this library treat it as an answer
    that cannot be read.
    """


@dataclass(frozen=True)
class Completion:
    """One answer of a model.

    Attributes:
        text: The text that the model wrote, without its reasoning.
        finish_reason: Why the answer ended: ``stop``, or ``length`` if ``max_tokens`` cut it off.
        prompt_tokens: Tokens of the input, estimated if the server does not count them.
        completion_tokens: Tokens of the output, estimated if the server does not count them.
        cached: Whether the answer was read from the cache, at no cost.
        logprobs: One mapping per position of the text, from the token there and each alternative
            to the natural logarithm of its probability. Empty if the server sends none; request
            them with ``logprobs=True, top_logprobs=20`` (see :meth:`LLM.with_parameters`).
        counted: Whether the server counted the tokens; ``None`` if it is unknown, as for some
            answers that an earlier version cached.
        seconds: Time until the answer arrived, with retries. If the answer was read from the cache,
            it is the time of the original call; ``None`` if an earlier version cached the answer.
        reasoning: What a reasoning model wrote before its answer: the field ``reasoning_content``
            or ``reasoning`` of the server's answer, or a ``<think>`` block at the start of its
            text. Empty if there is none.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool = False
    logprobs: tuple[Mapping[str, float], ...] = ()
    reasoning: str = ""
    counted: bool | None = field(default=None, compare=False)
    seconds: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.text


def counted_tokens(answer: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the numbers of input and output tokens that a server reports with its JSON answer.

    The result is ``None`` if the answer does not report them.
    """
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    # Embeddings and scores have no output.
    written = usage.get("completion_tokens", None if "choices" in answer else 0)
    counts = usage.get("prompt_tokens"), written
    if all(type(number) is int and 0 <= number < _ABSURD for number in counts):
        return cast(tuple[int, int], counts)
    return None


_ABSURD = 2**40  # tokens; a server that counts more has made a mistake


def completion_of(
    answer: Mapping[str, Any], tokens: tuple[int, int], secrets: Secrets
) -> Completion:
    """Return the first choice of a server's JSON answer as a completion.

    Args:
        answer: The JSON answer.
        tokens: Numbers of input tokens and output tokens.
        secrets: The secrets to remove from error messages.

    Raises:
        TransientError: If the answer is malformed; a retry may succeed.
        LLMError: If a retry would not help, for example if the model refused.
    """
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        text, reason = message_text(message.get("content")), choice.get("finish_reason") or ""
        reasoning = _reasoning_of(message)
    except (LookupError, TypeError, AttributeError):
        raise TransientError(
            f"the endpoint's reply has no entry in 'choices': {secrets.excerpt(answer)}"
        ) from None
    if isinstance(text, str):
        block, text = split_reasoning(text)
        reasoning = reasoning or block
    if reason == "content_filter":
        raise RefusalError("the answer was blocked by a content filter")
    if message.get("refusal"):
        raise RefusalError(f"the model refused: {secrets.excerpt(message['refusal'])}")
    if reason == "length" and not (isinstance(text, str) and text.strip()):
        raise AnswerError(
            "the model used up max_tokens before it wrote any text; increase max_tokens"
        )
    if not isinstance(text, str) and (message.get("tool_calls") or message.get("function_call")):
        raise AnswerError(
            f"the model called a tool and wrote no text: {secrets.excerpt(choice)}; do not pass "
            "tools in the parameters"
        )
    if not isinstance(text, str):
        raise TransientError(f"the endpoint's reply has no text: {secrets.excerpt(choice)}")
    reason = str(reason)
    try:
        (text + reason + reasoning).encode()
    except UnicodeEncodeError as error:
        raise TransientError(f"the text of the answer is not valid Unicode ({error})") from None
    if secrets.key_in(text) or secrets.key_in(reasoning):
        raise LLMError("the answer contains the API key and was discarded")
    return Completion(
        text,
        reason,
        *tokens,
        logprobs=_logprobs(choice),
        reasoning=reasoning,
        counted=counted_tokens(answer) is not None,
    )


def completion_in_cache(stored: Mapping[str, Any]) -> Completion:
    """Return the completion that is stored in an entry of the cache."""
    # Earlier versions stored the reasoning as a part of the text.
    reasoning, text = split_reasoning(stored["text"])
    answer = {"reasoning": reasoning, **stored, "text": text}
    return Completion(**answer | {"cached": True, "logprobs": tuple(stored.get("logprobs", ()))})


def _reasoning_of(message: Mapping[str, Any]) -> str:
    """Return the reasoning that a server sends separately from the text of a message.

    The result is empty if there is none.
    """
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            return str(message[name])
    content = message.get("content")
    parts = [_thinking(part) for part in content] if isinstance(content, list) else []
    return "".join(filter(None, parts))


def _thinking(part: Any) -> str | None:
    """Return the reasoning in a part of a message, or ``None`` if the part is not reasoning."""
    if not isinstance(part, dict) or part.get("type") not in ("thinking", "reasoning"):
        return None
    content = part.get(part["type"], part.get("text"))
    if isinstance(content, list):
        texts = [each.get("text") for each in content if isinstance(each, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _logprobs(choice: Mapping[str, Any]) -> tuple[dict[str, float], ...]:
    """Return the log probabilities of the tokens at each position of a choice.

    The result is empty if the choice has none in a known format.
    """
    try:
        logprobs = choice.get("logprobs") or {}
        if logprobs.get("top_logprobs"):
            # The format of text completions, which some servers also send for chats.
            rows = [(top or {}).items() for top in logprobs["top_logprobs"]]
        else:
            rows = [
                [
                    (each["token"], each["logprob"])
                    for each in (*(position.get("top_logprobs") or ()), position)
                ]
                for position in logprobs.get("content") or ()
            ]
        return tuple({_encodable(token): float(number) for token, number in row} for row in rows)
    except (LookupError, TypeError, AttributeError, ValueError):
        return ()


def _encodable(token: object) -> str:
    return str(token).encode("utf-8", "replace").decode()


def message_text(content: Any) -> Any:
    """Return the text of a message, given its content.

    Some servers send the content as a list of parts. Their texts are joined, and parts with
    reasoning are left out. If any other part has no text, the content is returned unchanged.
    """
    if not isinstance(content, list) or not content:
        return content
    answer = [part for part in content if _thinking(part) is None]
    parts = [part.get("text") if isinstance(part, dict) else part for part in answer]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else content


def vectors_of(answer: Mapping[str, Any], count: int, secrets: Secrets) -> list[list[float]]:
    """Return the embeddings in a server's JSON answer, in the order of the texts that were sent.

    Args:
        answer: The JSON answer.
        count: Number of texts that were sent.
        secrets: The secrets to remove from error messages.

    Raises:
        TransientError: If the answer does not have one finite vector per text, or if the vectors
            differ in length.
    """
    try:
        entries = {entry["index"]: entry["embedding"] for entry in answer["data"]}
        vectors = [[float(number) for number in entries[i]] for i in range(count)]
    except (LookupError, TypeError, ValueError, OverflowError):
        raise TransientError(
            f"the endpoint must return {count} embeddings, one per text; got "
            f"{secrets.excerpt(answer)}"
        ) from None
    sound = vectors and len({len(vector) for vector in vectors}) == 1
    if not sound or not vectors[0] or not all(map(math.isfinite, chain(*vectors))):
        raise TransientError(
            "the embeddings that the endpoint returned must consist of finite numbers and have the "
            "same length"
        )
    return vectors


def scores_of(answer: Mapping[str, Any], count: int, secrets: Secrets) -> list[float]:
    """Return the relevance scores in a server's JSON answer, in the order of the texts sent.

    Args:
        answer: The JSON answer.
        count: Number of texts that were sent.
        secrets: The secrets to remove from error messages.

    Raises:
        TransientError: If the answer does not have one finite score per text.
    """
    try:
        rows = answer["results"] if "results" in answer else answer["data"]
        scores = {row["index"]: row.get("relevance_score", row.get("score")) for row in rows}
        relevance = [float(scores[i]) for i in range(count)]
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
        raise TransientError(
            f"the endpoint must return {count} scores, one per text; got {secrets.excerpt(answer)}"
        ) from None
    if not all(map(math.isfinite, relevance)):
        raise TransientError("the scores that the endpoint returned must be finite numbers")
    return relevance


def status_error(error: APIStatusError, secrets: Secrets) -> TransientError | LLMError:
    """Convert an error of the OpenAI client to an error of this library.

    Args:
        error: The error, which contains the HTTP status and the response.
        secrets: The secrets to remove from the message.

    Returns:
        A ``TransientError`` if a retry may succeed, otherwise an ``LLMError``.
    """
    status, response = error.status_code, error.response
    details = error.body if isinstance(error.body, dict) else {}
    excerpt = secrets.excerpt(details.get("message") or error.body or response.text)
    reason = f"HTTP {status}: {excerpt}" if excerpt else f"HTTP {status}"
    if response.is_redirect:
        moved = secrets.excerpt(response.headers.get("location", ""))
        return LLMError(
            f"{reason}: the endpoint has moved to {moved}; pass this address as base_url", status
        )
    if error.code == "content_filter":
        return RefusalError(f"the request was blocked by a content filter ({reason})", status)
    fault = transient_status(status, reason, response.headers)
    return fault if fault and error.code != "insufficient_quota" else LLMError(reason, status)
