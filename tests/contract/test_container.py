"""The image serves every repository that a checkout serves, and compose runs it as it wants to be run."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml
from talkahead.launcher.command import make_parser
from talkahead.launcher.supervisor import _EXIT_MARGIN_S

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
SERVICE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["talkahead"]
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions(keyword: str) -> list[str]:
    """The arguments of every such instruction, its lines joined."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{keyword} +(.*)$", joined, re.MULTILINE)


def served() -> dict[str, Any]:
    """What `talkahead serve` makes of the image's own command."""
    entry, command = json.loads(instructions("ENTRYPOINT")[0]), json.loads(instructions("CMD")[0])
    assert entry == ["talkahead", "serve"]
    return vars(make_parser().parse_args([*entry[1:], *command]))


def seconds(duration: str) -> int:
    assert duration.endswith("s")
    return int(duration.removesuffix("s"))


def default_of(argument: str) -> str:
    """Of a build argument."""
    return next(one.partition("=")[2] for one in instructions("ARG") if one.startswith(f"{argument}="))


def test_it_installs_what_imported_families_need() -> None:
    installed = re.search(
        r"pip install --constraint constraints.txt +\"\.\[(.+)\]\"", DOCKERFILE.replace("\\\n", "")
    )
    assert installed is not None
    always = set(installed[1].rpartition(")")[2].split(","))
    assert {"client", "families"} <= always <= set(PROJECT["optional-dependencies"])


def test_it_installs_the_same_torch_as_a_checkout() -> None:
    versions = {
        name: re.findall(r"torch==[\d.]+", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("deploy/Dockerfile", "Makefile")
    }
    assert len(versions["Makefile"]) == 1
    assert versions["deploy/Dockerfile"] == versions["Makefile"]


def test_compose_builds_on_tritons_image_and_the_readme_says_so() -> None:
    assert instructions("FROM") == ["${BASE_IMAGE}"]
    base = SERVICE["build"]["args"]["BASE_IMAGE"]
    image = base.removeprefix("${BASE_IMAGE:-").removesuffix("}")
    assert base == f"${{BASE_IMAGE:-{image}}}" and image != default_of("BASE_IMAGE")
    assert f"--build-arg BASE_IMAGE={image} " in (ROOT / "README.md").read_text(encoding="utf-8")


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    copied = [source for one in instructions("COPY") for source in shlex.split(one)[:-1]]
    assert copied and all((ROOT / source).exists() for source in copied)
    assert IGNORED[1] == "*"
    assert {line[1:] for line in IGNORED if line.startswith("!")} == set(copied)


def test_its_command_serves_its_repository_on_the_ports_that_it_exposes() -> None:
    options = served()
    assert options["host"] == "0.0.0.0"
    ports = [options[f"{name}_port"] for name in ("http", "grpc", "metrics")]
    assert [str(port) for port in ports] == instructions("EXPOSE")[0].split()
    assert str(options["repository"]) == shlex.split(instructions("COPY")[-1])[-1]
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]


def test_it_runs_as_a_user_without_rights_who_owns_the_cache() -> None:
    user, _, group = instructions("USER")[-1].partition(":")
    assert int(user) > 999 and int(group) > 999
    made = next(one for one in instructions("RUN") if "useradd" in one)
    assert f"--gid {group} " in made and f"--uid {user} " in made
    cache = next(one for one in instructions("ENV") if one.startswith("XDG_CACHE_HOME="))
    folder = cache.partition("=")[2]
    assert made.endswith(folder)
    assert f"cache:{folder}" in SERVICE["volumes"]


def test_compose_waits_longer_than_the_server_takes_to_end() -> None:
    options = served()
    assert (
        seconds(SERVICE["stop_grace_period"])
        > options["drain_delay"] + options["drain_timeout"] + options["exit_timeout"] + _EXIT_MARGIN_S
    )
