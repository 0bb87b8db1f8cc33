"""The release workflow is pinned, holds no password, and runs scripts that exist."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
RELEASE = ROOT / ".github" / "workflows" / "release.yml"

pytestmark = pytest.mark.skipif(not RELEASE.exists(), reason="a source archive has no workflows")


def workflow() -> Mapping[Any, Any]:
    loaded: Mapping[Any, Any] = yaml.safe_load(RELEASE.read_text(encoding="utf-8"))
    return loaded


def steps() -> Iterator[Mapping[str, Any]]:
    for job in workflow()["jobs"].values():
        yield from job["steps"]


def test_every_action_is_pinned_to_a_commit() -> None:
    actions = [step["uses"] for step in steps() if "uses" in step]
    assert actions
    assert [name for name in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


def test_publishing_uses_no_password_and_no_job_may_write_to_the_repository() -> None:
    assert "secrets." not in RELEASE.read_text(encoding="utf-8")
    assert workflow()["permissions"] == {}
    assert workflow()["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    permissions = [job["permissions"] for job in workflow()["jobs"].values()]
    assert all(granted.get("contents", "none") in ("none", "read") for granted in permissions)


def test_the_release_scripts_exist() -> None:
    commands = "\n".join(step["run"] for step in steps() if "run" in step)
    scripts = re.findall(r"\.ci/\w+(?:\.txt)?", commands)
    assert {".ci/run", ".ci/release", ".ci/release.txt"} <= set(scripts)
    assert all((ROOT / script).is_file() for script in scripts)
    assert os.access(ROOT / ".ci" / "release", os.X_OK)


def test_every_build_tool_has_a_version_and_hashes() -> None:
    text = (ROOT / ".ci" / "release.txt").read_text(encoding="utf-8")
    assert "://" not in text  # from wherever pip is configured to look
    requirements = re.split(r"\n(?=\S)", re.sub(r"(?m)^ *#.*\n", "", text).strip())
    unpinned = [
        requirement
        for requirement in requirements
        if not re.match(r"[\w.-]+==\S+", requirement) or "--hash=sha256:" not in requirement
    ]
    assert unpinned == []
    named = {re.split("==", requirement)[0] for requirement in requirements}
    wanted = (ROOT / ".ci" / "release.in").read_text(encoding="utf-8").splitlines()
    assert {line for line in wanted if line and not line.startswith("#")} <= named
