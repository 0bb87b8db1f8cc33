"""The server of the labelling page: only its own page may read, and only it may write."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labelling_data import answers, serving

from mirage.errors import SettingError
from mirage.labelling.items import AnswerItem
from mirage.labelling.server import MOST_BYTES, LabelServer
from mirage.labelling.session import open_session
from mirage.metaeval import AnswerSentence


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabelServer]:
    with serving(answers(), tmp_path / "labels.jsonl", rater="ann") as server:
        yield server


def send(
    server: LabelServer,
    method: str = "POST",
    path: str | None = None,
    body: bytes | None = None,
    **headers: str | None,
) -> tuple[int, str, Any]:
    """Send a request as the page would, with some headers changed or, if None, left out."""
    own = f"http://{server.hosts[0]}"
    item = next(iter(server.session.items))
    body = json.dumps({"item": item, "label": "correct"}).encode() if body is None else body
    usual = {"Origin": own, "Host": server.hosts[0], "Content-Type": "application/json"}
    usual["Content-Length"] = str(len(body))
    for name, value in headers.items():
        usual.pop(name.replace("_", "-"), None)
        if value is not None:
            usual[name.replace("_", "-")] = value
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.putrequest(method, path or f"/{server.token}/label", skip_host=True)
    for name, value in usual.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def test_it_stores_a_label_and_shows_it_on_the_page(server: LabelServer) -> None:
    assert send(server)[0] == 200
    assert list(server.session.given.values()) == ["correct"]
    path = server.session.journal.path
    assert path is not None
    assert json.loads(path.read_text())["label"] == "correct"
    status, page, headers = send(server, "GET", f"/{server.token}/", b"")
    assert (status, '"correct"' in page) == (200, True)
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"Host": "evil.example"}),
        (403, {"Host": "127.0.0.1"}),
        (403, {"Host": "evil.example:80"}),
        (403, {"Host": None}),
        (403, {"Origin": None}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "https://127.0.0.1"}),
        (403, {"Origin": "http://127.0.0.1:1"}),
        (403, {"Sec_Fetch_Site": "cross-site"}),
        (403, {"Sec_Fetch_Site": "same-site"}),
        (403, {"Content_Type": "text/plain"}),
        (403, {"Content_Type": "application/x-www-form-urlencoded"}),
        (403, {"Transfer_Encoding": "chunked"}),
        (413, {"Content_Length": None}),
        (413, {"Content_Length": "-1"}),
        (413, {"Content_Length": "0"}),
        (413, {"Content_Length": str(MOST_BYTES + 1)}),
        (413, {"Content_Length": "9" * 400}),
        (413, {"Content_Length": "many"}),
    ],
)
def test_other_pages_and_large_requests_are_refused(
    server: LabelServer, status: int, headers: dict[str, str | None]
) -> None:
    assert send(server, **headers)[0] == status
    assert server.session.given == {}


def test_two_hosts_are_refused(server: LabelServer) -> None:
    request = (
        f"POST /{server.token}/label HTTP/1.1\r\nHost: {server.hosts[0]}\r\nHost: evil.example\r\n"
        f"Origin: http://{server.hosts[0]}\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\n\r\n{}"
    )
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=5) as connection:
        connection.sendall(request.encode())
        assert b" 403 " in connection.recv(100)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b"nonsense",
        b'{"item": 1, "label": "correct"}',
        b'"text"',
        b"\xff\xfe",
        b"[" * 999,
    ],
)
def test_damaged_requests_are_refused(server: LabelServer, body: bytes) -> None:
    assert send(server, body=body)[0] == 400
    assert server.session.given == {}


def test_unknown_items_and_labels_are_refused(server: LabelServer) -> None:
    for row in ({"item": "x", "label": "correct"}, {"item": "x" * 500, "label": "<script>"}):
        assert send(server, body=json.dumps(row).encode())[0] == 500
    assert server.session.given == {}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    ["/", "/label", "/x/label", "/../labels.jsonl", "//", "/%2e%2e/", "http://evil.example/"],
)
def test_nothing_is_served_without_the_token(server: LabelServer, method: str, path: str) -> None:
    status, text, _ = send(server, method, path)
    assert status in (403, 404)
    assert "Nile" not in text


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "<b>"])
def test_other_methods_are_refused_and_not_repeated(server: LabelServer, method: str) -> None:
    status, text, _ = send(server, method)
    assert status in (400, 501)
    assert "<b>" not in text


def test_files_beside_the_labels_are_never_served(server: LabelServer) -> None:
    assert send(server, "GET", f"/{server.token}/labels.jsonl", b"")[0] == 404
    assert send(server, "GET", f"/{server.token}/../../../../etc/passwd", b"")[0] == 404


def test_it_listens_on_loopback_only_and_the_token_is_long(server: LabelServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32


def test_a_port_in_use_is_one_clear_error(server: LabelServer) -> None:
    with (
        open_session(answers(), None, rater="ben") as session,
        pytest.raises(SettingError, match="choose another --port"),
    ):
        LabelServer(session, server.server_port)


def test_texts_are_escaped(tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>"
    query = answers()[0].query.model_copy(update={"text": hostile})
    item = AnswerItem(AnswerSentence(query, hostile), hostile, "m")
    options: dict[str, Any] = {"rater": "<b>ann</b>", "scale": [hostile[:40], "no"]}
    with serving([item], tmp_path / "labels.jsonl", **options) as server:
        page = send(server, "GET", f"/{server.token}/", b"")[1]
    assert "<img" not in page
    assert "<b>ann" not in page
    assert page.count("</script>") == 2
