"""Run vLLM in a child process, so that its GPU memory can be freed for another model.

The engine of vLLM keeps most of a GPU's memory until its process ends, and an error in the engine
may end the process. Therefore the engine runs in a child process, which this module starts as a
script. The two processes exchange pickled messages through pipes. The parent sends first the
settings, then batches of queries, and the child replies to each message. There is one child process
at a time.
"""

from __future__ import annotations

import atexit
import copy
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from mirage.dataset import MirageDataset
from mirage.errors import GenerationError, SettingError, missing_package
from mirage.generation._fingerprints import prompt_digest
from mirage.generation.base import Recording, recording
from mirage.generation.local import VLLMGenerator, local_settings
from mirage.generation.prompts import ANSWER_TOKENS, Prompt, PromptMaker, prompt_for
from mirage.llm.budget import Usage
from mirage.models import Query, Response, Run


class VLLMProcessGenerator:
    """A generator that runs a model with vLLM in a child process.

    The child process starts with the first batch. Later runs with the same settings use it too,
    even if their prompts differ. The process ends when a generator with other settings needs a
    process, when :func:`close_process` is called, or when the parent process ends. If the child
    process crashes, for example because memory is short, the run fails. If you then repeat the run
    with the same file ``out``, the responses in this file are reused.

    Args:
        model: A name on the Hugging Face hub, or a folder. Its tokenizer needs a chat template.
        name: The name of the model in the run; by default ``model``.
        prompt: A function that returns the prompt for a query. The default is that of
            :class:`mirage.generation.VLLMGenerator`.
        batch_size: Number of queries to pass to the child process at a time.
        max_new_tokens: Maximum number of tokens of an answer.
        temperature: Sampling temperature. With 0, the most likely token is always chosen.
        seed: Random seed for sampling.
        engine: Further arguments of ``vllm.LLM``, such as ``tensor_parallel_size=2``.

    Attributes:
        usage: Number of queries (``calls``) and tokens that this object has processed so far.

    Raises:
        SettingError: If ``batch_size`` is below 1.
        MissingPackageError: If vllm is not installed.
    """

    _repeat = 0

    def __init__(
        self,
        model: str | Path,
        *,
        name: str | None = None,
        prompt: PromptMaker | None = None,
        batch_size: int = 256,
        max_new_tokens: int = ANSWER_TOKENS,
        temperature: float = 0.0,
        seed: int = 0,
        **engine: Any,
    ) -> None:
        if batch_size < 1:
            raise SettingError(f"batch_size must be at least 1, got {batch_size}")
        # vllm itself is imported in the other process only, because it may reserve GPU memory.
        if find_spec("vllm") is None:
            raise missing_package("vllm")
        self.name: str = name or str(model)
        self.prompt: PromptMaker | None = prompt
        self.batch_size = batch_size
        self.usage: Usage = Usage()
        self._settings: dict[str, Any] = engine | {
            "model": str(model),
            "batch_size": batch_size,
            "max_new_tokens": max_new_tokens,
            "temperature": temperature,
        }
        self.seed: int = seed

    def __repr__(self) -> str:
        return f"VLLMProcessGenerator({self.name!r})"

    def __reduce__(self) -> Any:
        settings = self._settings | {"name": self.name, "prompt": self.prompt, "seed": self.seed}
        return partial(VLLMProcessGenerator, **settings), ()

    def again(self, number: int) -> VLLMProcessGenerator:
        """Return a copy of this generator for repeat ``number`` of a run, counted from 0.

        Each repeat has another random seed.
        """
        repeat = object.__new__(VLLMProcessGenerator)
        vars(repeat).update(vars(self))
        repeat.seed = self.seed + number
        repeat._repeat = self._repeat + number
        return repeat

    def run(
        self, dataset: MirageDataset, *, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Return a run with one response to each query of the dataset.

        Args:
            dataset: The queries.
            out: The file to which responses are appended, and from which a killed run resumes; see
                :meth:`mirage.Generator.run`.
            progress: Whether to show a progress bar on stderr, if stderr is a terminal.

        Raises:
            GenerationError: If every query failed, the model cannot be loaded, or the child process
                crashes.
        """
        make_prompt = None if self.prompt is None else prompt_for(dataset, self.prompt)
        with recording(self.name, dataset, out, progress, self._answer_settings) as record:
            for start in range(0, len(record.pending), self.batch_size):
                batch = record.pending[start : start + self.batch_size]
                self._answer(record, batch, make_prompt)
            return record.finish()

    def _answer_settings(self, dataset: MirageDataset) -> dict[str, Any]:
        """Return the settings on which the answers to a dataset depend."""
        prompt = (
            "default"
            if self.prompt is None
            else prompt_digest(prompt_for(dataset, self.prompt), dataset.language)
        )
        seed = self.seed - self._repeat
        return local_settings(self._settings["model"], self._settings, seed, prompt)

    def _answer(
        self, record: Recording, queries: Sequence[Query], make_prompt: PromptMaker | None
    ) -> None:
        """Record the responses to a batch of queries.

        If ``make_prompt`` is ``None``, the child process makes the prompts.
        """
        prompts: dict[str, Prompt] | None = None
        if make_prompt is not None:
            # A prompt may be any function of the user, which may not be picklable.
            prompts = {}
            for query in queries:
                try:
                    prompts[query.id] = make_prompt(query)
                except Exception as error:
                    record.fail(query, error)
            queries = [query for query in queries if query.id in prompts]
        if not queries:
            return
        request = _Request(queries, record.dataset.retrieved, prompts, self.seed)
        reply = _ask(self._settings, request)
        self.usage.calls += reply.usage.calls
        self.usage.prompt_tokens += reply.usage.prompt_tokens
        self.usage.completion_tokens += reply.usage.completion_tokens
        for response in reply.responses:
            record.add(response)


class _Request(NamedTuple):
    """A batch of queries for the child process, with their prompts and the random seed.

    If ``prompts`` is ``None``, the child process makes the prompts with the model's tokenizer.
    ``retrieved`` is whether the passages of the queries were retrieved for this run.
    """

    queries: Sequence[Query]
    retrieved: bool
    prompts: Mapping[str, Prompt] | None
    seed: int


class _Reply(NamedTuple):
    """The child process's reply: the responses to a batch, or the reason why there are none."""

    responses: Sequence[Response] = ()
    usage: Usage = Usage()
    error: str = ""


# In the parent process ----------------------------------------------------------------------------


class _Process:
    """A child process that runs a vLLM engine."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        # The child has to import the same packages, also those that a notebook has put on the path.
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._child = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.ask(self.settings)

    @property
    def is_running(self) -> bool:
        return self._child.poll() is None

    def ask(self, message: object) -> _Reply:
        """Send a message and return the reply; raise an error if there is none."""
        name, requests, replies = self.settings["model"], self._child.stdin, self._child.stdout
        assert requests is not None
        assert replies is not None
        try:
            pickle.dump(message, requests)
            requests.flush()
            reply: _Reply = pickle.load(replies)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            raise GenerationError(
                f"the process of vLLM with {name!r} ended with exit status "
                f"{self._child.returncode}; the last messages on stderr state the reason"
            ) from None
        except BaseException:
            self.close()  # an interrupt leaves a reply in the pipe
            raise
        if reply.error:
            self.close()
            raise GenerationError(f"vLLM with {name!r}: {reply.error}")
        return reply

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        for pipe in (self._child.stdin, self._child.stdout):
            # If the process has ended, the rest of a request cannot be sent.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            self._child.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


_PATIENCE_S = 30.0
"""Seconds that the engine has to free its memory before its process is killed."""

_LOCK = threading.Lock()
_running: list[_Process] = []  # at most one


def _ask(settings: Mapping[str, Any], request: _Request) -> _Reply:
    """Send a request to the child process with these settings, and return its reply.

    The process is started if it is not running; a process with other settings is ended first.
    """
    with _LOCK:
        if _running and not (_running[0].is_running and _running[0].settings == settings):
            _running.pop().close()
        if not _running:
            _running.append(_Process(settings))
        return _running[0].ask(request)


def close_process() -> None:
    """End the child process of vLLM, if there is one. This frees its GPU memory."""
    with _LOCK:
        while _running:
            _running.pop().close()


atexit.register(close_process)


# In the child process -----------------------------------------------------------------------------


def _serve() -> None:
    """Answer the requests of the parent process until it closes the pipe."""
    requests = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Texts that vLLM prints to stdout must not get between the replies.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(reply: _Reply) -> None:
        pickle.dump(reply, replies)
        replies.flush()

    try:
        generator = VLLMGenerator(**pickle.load(requests))
    except Exception as error:
        send(_Reply(error=f"the model cannot be loaded ({type(error).__name__}: {error})"))
        return
    send(_Reply())
    while True:
        try:
            request: _Request = pickle.load(requests)
        except EOFError:
            return
        send(_reply(generator, request))


def _reply(generator: VLLMGenerator, request: _Request) -> _Reply:
    worker = copy.copy(generator)
    worker.usage = Usage()
    worker.seed = request.seed
    prompts = request.prompts
    if prompts is not None:
        worker.prompt = lambda query: prompts[query.id]
    dataset = MirageDataset(request.queries, retrieved=request.retrieved)
    try:
        responses = worker.run(dataset, progress=False).responses
    except GenerationError as error:  # every query failed, and each response has its reason
        responses = tuple(each for each in error.responses if isinstance(each, Response))
    return _Reply(responses, worker.usage)


if __name__ == "__main__":
    # Classes of a module that runs as a script are pickled under another name.
    from mirage.generation import processes

    processes._serve()
