"""A megabyte of gzip that unpacks to a gigabyte: memory and time of a call that gets it.

    python benchmarks/long_answers.py [MEGABYTES]

Three processes ask a server on loopback: one that gets an ordinary answer, one with an ``LLM``, and
one with httpx alone, as a client without a limit has it (which is skipped with ``--ours``).
"""

from __future__ import annotations

import argparse
import http.server
import subprocess
import sys
import threading
import time
import zlib

OURS = """
import resource, sys, time
from mirage._base.concurrency import run_sync
from mirage.llm import LLM
from mirage.errors import LLMError

async def ask():
    async with LLM("m", base_url=sys.argv[1], cache=False, retries=0).connect() as connection:
        return await connection.ask([{"role": "user", "content": "?"}])

start = time.perf_counter()
try:
    said = run_sync(ask()).text
except LLMError as error:
    said = str(error).partition("/v1: ")[2]
seconds = time.perf_counter() - start
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds, said, sep="|")
"""

PEER = """
import resource, sys, time
import httpx

start = time.perf_counter()
size = len(httpx.post(sys.argv[1] + "/chat/completions", json={}, timeout=None).content)
seconds = time.perf_counter() - start
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds, f"{size} bytes", sep="|")
"""

PLAIN = b'{"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}'


def bomb(megabytes: int) -> bytes:
    """A JSON text of blanks, packed."""
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b" " * 2**20) for _ in range(megabytes)]
    return b"".join([*parts, packer.compress(PLAIN), packer.flush()])


def serve(body: bytes, **headers: str) -> str:
    """The address of a server that answers everything with this."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def measured(script: str, url: str) -> tuple[float, float, str]:
    """Megabytes and seconds of a process, and what it got."""
    done = subprocess.run(
        [sys.executable, "-c", script, url], check=True, capture_output=True, text=True
    )
    memory, seconds, said = done.stdout.strip().split("|")
    return float(memory), float(seconds), said


def main(megabytes: int = 1024, *, ours_only: bool = False) -> None:
    """Print a line a client."""
    start = time.perf_counter()
    body = bomb(megabytes)
    print(f"{len(body):,} bytes of gzip, made in {time.perf_counter() - start:.1f} s")
    packed = serve(body, **{"content-encoding": "gzip"})
    rows = {"LLM, ordinary answer": (OURS, serve(PLAIN)), "LLM, the bomb": (OURS, packed)}
    if not ours_only:
        rows["httpx alone, the bomb"] = (PEER, packed)
    for name, (script, url) in rows.items():
        memory, seconds, said = measured(script, url)
        print(f"{name:<24}{memory:>8.0f} MB {seconds:>7.2f} s   {said[:70]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("megabytes", default=1024, nargs="?", type=int)
    parser.add_argument("--ours", action="store_true", help="without httpx alone")
    options = parser.parse_args()
    main(options.megabytes, ours_only=options.ours)
