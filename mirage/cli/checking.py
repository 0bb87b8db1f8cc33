"""The command that says what is installed, and what answers: doctor."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from mirage.cli.endpoints import ask_for_models
from mirage.cli.inputs import JsonOption
from mirage.cli.shell import bad_input, example, fell_short, out, out_json, wrapped

__all__ = ["add_to"]

DISTRIBUTION = "mirage-rag"
FOR_DEVELOPERS = ("test", "dev", "docs", "browser")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=example("mirage doctor", "mirage doctor --endpoint http://localhost:8000/v1")
    )(doctor)


def doctor(
    endpoint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="See whether this endpoint answers, and the one of OPENAI_BASE_URL; no key is "
            "sent. May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is installed and missing, and what answers.

    Falls short (status 1) where a package that is always needed is missing, or an endpoint does
    not answer.
    """
    packages = _packages()
    urls = list(dict.fromkeys([*_configured(), *(endpoint or ())]))
    with bad_input():
        answers = {url: ask_for_models(url) for url in urls}
    found = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {need.package: need.version for need in packages if not need.extra},
        "extras": _extras(packages),
        "data": _data(),
        "keys": {"OPENAI_API_KEY": "set" if os.environ.get("OPENAI_API_KEY") else "not set"},
        "endpoints": {url: answer._asdict() for url, answer in answers.items()},
    }
    if as_json:
        out_json(found)
    else:
        out(_shown(found))
    missing = [
        f"the package {need.package} is missing: install {DISTRIBUTION} again"
        for need in packages
        if not need.extra and need.version is None
    ]
    silent = [f"{url}: {answer.reason}" for url, answer in answers.items() if not answer.ok]
    if missing or silent:
        fell_short([*missing, *silent])


# Packages -----------------------------------------------------------------------------------------


class _Need(NamedTuple):
    package: str
    extra: str
    version: str | None


def _packages() -> list[_Need]:
    """What the library needs, with the version that is installed."""
    from importlib import metadata

    needs = [_Need(DISTRIBUTION, "", _version(DISTRIBUTION))]
    for line in metadata.requires(DISTRIBUTION) or ():
        package = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", line)
        name = extra[1] if extra else ""
        if package and name not in FOR_DEVELOPERS and package[0] != DISTRIBUTION:
            needs.append(_Need(package[0], name, _version(package[0])))
    return needs


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extras(packages: list[_Need]) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(need.extra for need in packages if need.extra)
    found = {}
    for name in names:
        parts = {need.package: need.version for need in packages if need.extra == name}
        missing = None in parts.values()
        command = f"pip install '{DISTRIBUTION}[{name}]'" if missing else None
        found[name] = {"packages": parts, "install": command}
    return found


# Data ---------------------------------------------------------------------------------------------


def _data() -> dict[str, Any]:
    from mirage.languages import LANGUAGES
    from mirage.llm.cache import default_cache_path

    cache = default_cache_path()
    root = Path(__file__).parents[1]
    return {
        "bundled_corpora": len(list((root / "data" / "mini").glob("*.jsonl"))),
        "bundled_surrogates": len(list((root / "surrogate" / "pretrained").glob("*.joblib"))),
        "languages": list(LANGUAGES),
        "cache": str(cache.parent),
        "cache_set_by": "MIRAGE_CACHE" if os.environ.get("MIRAGE_CACHE") else None,
        "llm_cache_bytes": cache.stat().st_size if cache.is_file() else None,
    }


# Endpoints ----------------------------------------------------------------------------------------


def _configured() -> list[str]:
    url = os.environ.get("OPENAI_BASE_URL", "").strip()
    return [url] if url else []


# Showing ------------------------------------------------------------------------------------------


def _shown(found: dict[str, Any]) -> str:
    data = found["data"]
    size = data["llm_cache_bytes"]
    kept = "no answers of LLMs yet" if size is None else f"{size / 1e6:.1f} MB of LLMs' answers"
    lines = [
        f"{DISTRIBUTION} {found['packages'][DISTRIBUTION]}, Python {found['python']}, "
        f"{found['platform']}",
        "",
        "Packages",
        wrapped(_versions(found["packages"]), "  "),
        "",
        "Extras",
    ]
    for name, extra in found["extras"].items():
        lines.append(wrapped(f"{name}: {_versions(extra['packages'])}", "  "))
        if extra["install"]:
            lines.append(f"    install: {extra['install']}")
    lines += [
        "",
        "Data",
        f"  {data['bundled_corpora']} bundled corpora, {data['bundled_surrogates']} bundled "
        "surrogates",
        f"  cache: {data['cache']} ({kept})",
        "",
        "Endpoints",
        *(f"  {name}: {state}" for name, state in found["keys"].items()),
        *(f"  {url}: {answer['reason']}" for url, answer in found["endpoints"].items()),
    ]
    return "\n".join(lines)


def _versions(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '(missing)'}" for name, version in packages.items())
