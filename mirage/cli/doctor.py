"""mirage doctor: check the installation, the bundled data and endpoints."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Annotated, Any

from mirage.cli import _options as options
from mirage.cli._llms import ask_for_models
from mirage.cli._output import out_either, wrapped
from mirage.cli._shell import app, example, fall_short, option
from mirage.errors import DISTRIBUTION, install_command

FOR_DEVELOPERS = ("test", "dev")


@app.command(epilog=example("mirage doctor", "mirage doctor --endpoint http://localhost:8000/v1"))
def doctor(
    endpoint: Annotated[
        list[str] | None,
        option(
            "URL",
            "Also check that this LLM endpoint answers, without sending a key; may be repeated. "
            "OPENAI_BASE_URL is also checked if it is set.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the installation, the bundled data and endpoints.

    The exit status is 1 if a required package is missing, if a bundled surrogate was changed, or if
    an endpoint does not answer.
    """
    packages = _packages()
    configured = os.environ.get("OPENAI_BASE_URL", "").strip()
    urls = dict.fromkeys(filter(None, (configured, *(endpoint or ()))))
    answers = {url: ask_for_models(url) for url in urls}
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": packages.pop(""),
        "extras": {name: _extra(name, needs) for name, needs in packages.items()},
        "data": _data(),
        "keys": {"OPENAI_API_KEY": "set" if os.environ.get("OPENAI_API_KEY") else "not set"},
        "endpoints": {url: answer._asdict() for url, answer in answers.items()},
    }
    out_either(_text(facts), facts, as_json)
    missing = [
        f"the package {package} is missing; install it again with: {install_command()}"
        for package, version in facts["packages"].items()
        if version is None
    ]
    silent = [f"{url}: {answer.reason}" for url, answer in answers.items() if not answer.ok]
    changed = [f"{name}: {fault}" for name, fault in facts["data"]["changed_surrogates"].items()]
    fall_short([*missing, *changed, *silent])


# Packages -----------------------------------------------------------------------------------------


def _packages() -> dict[str, dict[str, str | None]]:
    """Return the installed version of each required package, by extra and package.

    The extra ``""`` has the packages that Mirage always requires. The version is ``None`` if a
    package is not installed.
    """
    from importlib import metadata

    needs = {"": {DISTRIBUTION: _version(DISTRIBUTION)}}
    for line in metadata.requires(DISTRIBUTION) or ():
        package = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", line)
        name = extra[1] if extra else ""
        if package and name not in FOR_DEVELOPERS and package[0] != DISTRIBUTION:
            needs.setdefault(name, {})[package[0]] = _version(package[0])
    return needs


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extra(name: str, packages: dict[str, str | None]) -> dict[str, Any]:
    command = install_command(name) if None in packages.values() else None
    return {"packages": packages, "install": command}


# Data ---------------------------------------------------------------------------------------------


def _data() -> dict[str, Any]:
    from mirage.dataset import LEVELS
    from mirage.languages import LANGUAGES
    from mirage.llm.cache import default_cache_path
    from mirage.surrogate.artifacts import verify

    cache = default_cache_path()
    root = Path(__file__).parents[1]
    return {
        "bundled_corpora": sum(
            len(list((root / "data" / folder).glob("*.jsonl"))) for folder in LEVELS.values()
        ),
        "bundled_surrogates": len(list((root / "surrogate" / "pretrained").glob("*.joblib"))),
        "changed_surrogates": {name: fault for name, fault in verify(None).items() if fault},
        "languages": list(LANGUAGES),
        "cache": str(cache.parent),
        "cache_set_by": "MIRAGE_CACHE" if os.environ.get("MIRAGE_CACHE") else None,
        "llm_cache_bytes": cache.stat().st_size if cache.is_file() else None,
    }


# Output -------------------------------------------------------------------------------------------


def _text(facts: dict[str, Any]) -> str:
    data = facts["data"]
    size = data["llm_cache_bytes"]
    answers = "empty" if size is None else f"{size / 1e6:.1f} MB"
    lines = [
        f"{DISTRIBUTION} {facts['packages'][DISTRIBUTION]}, Python {facts['python']}, "
        f"{facts['platform']}",
        "",
        "Packages",
        wrapped(_versions(facts["packages"]), "  "),
        "",
        "Extras",
    ]
    for name, extra in facts["extras"].items():
        lines.append(wrapped(f"{name}: {_versions(extra['packages'])}", "  "))
        if extra["install"]:
            lines.append(f"    install: {extra['install']}")
    lines += [
        "",
        "Data",
        f"  {data['bundled_corpora']} bundled corpora, {data['bundled_surrogates']} bundled "
        "surrogates",
        f"  cache: {data['cache']} ({answers})",
        "",
        "Endpoints",
        *(f"  {name}: {state}" for name, state in facts["keys"].items()),
        *(f"  {url}: {answer['reason']}" for url, answer in facts["endpoints"].items()),
    ]
    return "\n".join(lines)


def _versions(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or '(missing)'}" for name, version in packages.items())
