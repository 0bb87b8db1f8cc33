"""5,000 calls to an LLM through the client, against a bare loop over httpx.

    python validation/speed/llm_calls.py [--calls CALLS] [--turns TURNS]

A server in a process of its own answers each call after 50 ms; 64 calls are in progress at a time.
The client retries, has timeouts, budget and usage, and stores every answer in a cache on disk. The
bare loop only posts the same requests and reads the answers. Each has a process of its own, and
they alternate, three times each. The script prints the seconds of the fastest turn, their ratio
(aim: at most 2.5), the same for CPU time, and the memory of the client after 1,000 calls, after
10,000 calls if there are more, after all calls, and at its peak (aim: constant, under 300 MiB).
5,000 calls of 50 ms, 64 at a time, take at least 3.9 s.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "_common"))
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from _results import add_figure, save, script_parser

CALLS, LATENCY_S, CONCURRENCY, TURNS = 5_000, 0.05, 64, 3
ANSWER = "##Reason: [36897421#2] says so. " * 20 + "##Answer: Ndiyo [36897421#2]."
PASSAGES = "Mlima Kilimanjaro ni mlima mrefu kuliko yote barani Afrika. " * 40


def prompt(i: int) -> list[dict[str, str]]:
    """Return the messages of one call, about 2.4 kB."""
    return [{"role": "user", "content": f"Swali la {i}: mlima mrefu ni upi?\n\n{PASSAGES}"}]


# The server ---------------------------------------------------------------------------------------


class Server(asyncio.Protocol):
    """A connection with as little of HTTP as these clients need, to save CPU time."""

    message: ClassVar = {"role": "assistant", "content": ANSWER}
    usage: ClassVar = {"prompt_tokens": 800, "completion_tokens": 200, "total_tokens": 1000}
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage,
        }
    ).encode()
    head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    response = head.format(len(body)).encode() + body

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport that answers are written to."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.received = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer after the delay, once a request is complete."""
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if end and len(body) >= int(length):
            self.received = b""
            loop = asyncio.get_running_loop()
            loop.call_later(LATENCY_S, self.transport.write, self.response)


async def serve() -> None:
    """Print the port, and answer until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# The clients --------------------------------------------------------------------------------------


async def ours(url: str) -> dict[str, float]:
    """Return the seconds and the memory of our client."""
    from mirage._base.concurrency import for_each
    from mirage.llm import LLM, Budget

    found: dict[str, float] = {}
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        llm = LLM(
            "m",
            base_url=url,
            concurrency=CONCURRENCY,
            cache=Path(folder) / "cache.sqlite",
            budget=Budget(calls=CALLS, tokens=10**9),
        )
        async with llm.connect() as connection:

            async def work(i: int) -> None:
                nonlocal done
                completion = await connection.ask(prompt(i))
                assert completion.text == ANSWER
                done += 1
                if done in (1_000, 10_000, CALLS):
                    found[f"mib_after_{done}"] = resident_mib()

            start, cpu = time.perf_counter(), time.process_time()
            await for_each(range(CALLS), work, CONCURRENCY)
            found["seconds"] = time.perf_counter() - start
            found["cpu_seconds"] = time.process_time() - cpu
        assert llm.cache is not None
        assert len(llm.cache) == llm.usage.calls == CALLS
        llm.cache.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak /= 2**20 if sys.platform == "darwin" else 2**10
    found["mib_peak"] = max(peak, *(mib for name, mib in found.items() if name.startswith("mib_")))
    return found


async def bare(url: str) -> dict[str, float]:
    """Return the seconds of httpx alone with its default settings."""
    import httpx

    waiting = iter(range(CALLS))
    async with httpx.AsyncClient(timeout=120) as client:

        async def worker() -> None:
            for i in waiting:
                body = {"model": "m", "messages": prompt(i), "temperature": 0.0, "max_tokens": 1024}
                response = await client.post(f"{url}/chat/completions", json=body)
                assert response.json()["choices"][0]["message"]["content"] == ANSWER

        start, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENCY):
                group.create_task(worker())
        return {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu,
        }


def resident_mib() -> float:
    """Return the memory of this process in MiB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


# The run ------------------------------------------------------------------------------------------


def measured(client: str, url: str) -> dict[str, float]:
    """Return the figures that one client prints in a process of its own."""
    command = [sys.executable, __file__, client, url, "--calls", str(CALLS)]
    found: dict[str, float] = json.loads(subprocess.check_output(command))
    return found


def main(turns_each: int) -> None:
    """Print the figures of both clients."""
    with subprocess.Popen([sys.executable, __file__, "serve"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        turns = [(measured("ours", url), measured("bare", url)) for _ in range(turns_each)]
        server.terminate()
    own = min((turn[0] for turn in turns), key=lambda found: found["seconds"])
    peer = min(turn[1]["seconds"] for turn in turns)
    own_cpu, peer_cpu = (min(turn[client]["cpu_seconds"] for turn in turns) for client in (0, 1))
    print(f"{CALLS} calls, {LATENCY_S * 1000:.0f} ms each, {CONCURRENCY} at a time")
    print(f"  ours {own['seconds']:6.2f} s")
    print(f"  httpx{peer:6.2f} s")
    print(f"  ratio{own['seconds'] / peer:6.2f}")
    print(f"  CPU: ours {own_cpu:.2f} s, httpx {peer_cpu:.2f} s, ratio {own_cpu / peer_cpu:.2f}")
    for name, mib in own.items():
        if name.startswith("mib_"):
            print(f"  memory of ours, {name}: {mib:.0f} MiB")
    add_figure(own["seconds"], "mirage, s")
    add_figure(peer, "httpx, s")
    add_figure(own["seconds"] / peer, "ratio")
    add_figure(own_cpu, "mirage, CPU s")
    add_figure(peer_cpu, "httpx, CPU s")
    add_figure(own_cpu / peer_cpu, "ratio of CPU times")
    add_figure(own["mib_after_1000"], "memory after 1,000 calls, MiB")
    add_figure(own[f"mib_after_{CALLS}"], "memory after all calls, MiB")
    add_figure(own["mib_peak"], "peak memory, MiB")


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("part", nargs="?", choices=("serve", "ours", "bare"), help="all by default")
    parser.add_argument("url", nargs="?", help="the server that ours and bare ask")
    parser.add_argument("--calls", type=int, default=CALLS, help="calls of each turn")
    parser.add_argument("--turns", type=int, default=TURNS, help="turns of each client")
    options = parser.parse_args()
    CALLS = 1_000 if options.quick else options.calls
    if options.part is None:
        main(1 if options.quick else options.turns)
        save(parser, options)
    elif options.part == "serve":
        asyncio.run(serve())
    else:
        print(json.dumps(asyncio.run({"ours": ours, "bare": bare}[options.part](options.url))))
