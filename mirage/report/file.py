"""Assemble a page as one HTML file with its style, its scripts and a content security policy."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from mirage._base.files import write_text
from mirage.errors import DatasetError, MirageError
from mirage.report import elements as elements
from mirage.report.elements import tag


def save(page: str, path: str | Path) -> None:
    """Write a page, given as HTML text, to a file.

    Raises:
        MirageError: If the file cannot be written.
    """
    try:
        write_text(Path(path), page)
    except DatasetError as error:
        raise MirageError(f"{error}; choose a path in an existing folder") from error


def whole(
    title: str,
    lead: str,
    navigation: Element | None,
    main: Element,
    data: Any,
    *scripts: str,
    connect: bool = False,
) -> str:
    """Return the HTML text of a page.

    Args:
        title: The title.
        lead: The line below the title.
        navigation: Links to the sections of ``main``, if there are several.
        main: The content.
        data: Data for the scripts, which read it as JSON.
        scripts: File names of scripts to add to those that all pages have.
        connect: Whether scripts may send requests to the server that the page came from.
    """
    sheet, sheet_hash = elements.style(_asset("report.css"))
    scripts = ("page.js", *(("cards.js", *scripts) if scripts else ()))
    code, code_hash = elements.script("".join(map(_asset, scripts)))
    # Only the style and the scripts with these hashes may run, and nothing else may be loaded.
    source = "connect-src 'self'; " if connect else ""
    policy = (
        f"default-src 'none'; {source}style-src {sheet_hash}; script-src {code_hash}; "
        "img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{title} · Mirage"),
        sheet,
    )
    header = tag(
        "header",
        tag("p", "Mirage", class_="brand"),
        tag("button", "Dark", type="button", id="theme", aria_pressed="false"),
        tag("h1", tag("bdi", title)),
        tag("p", lead, class_="lead"),
        navigation,
    )
    no_script = tag("p", "Sorting, and the pages behind the table, need JavaScript.")
    body = tag(
        "body",
        tag("a", "Skip to the table", href="#main", class_="skip"),
        header,
        tag("noscript", no_script),
        main,
        tag("p", id="said", class_="unseen", role="status"),
        elements.data(data, "data"),
        code,
    )
    return elements.document(tag("html", head, body, lang="en"))


def _asset(name: str) -> str:
    return (resources.files("mirage.report") / "assets" / name).read_text(encoding="utf-8")
