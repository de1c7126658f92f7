"""What `make fresh` runs is what the README says, and what it shows of this machine is where packages are."""

from __future__ import annotations

from pathlib import Path

import pytest
from fresh import CACHE, ROOT, SHOWN, FreshError, chosen, on_every_path, package_settings, steps_of

README = (ROOT / "README.md").read_text()


def test_the_readme_has_every_command_of_a_fresh_machine() -> None:
    steps = {step.name: step.command for step in steps_of(README)}
    assert list(steps) == ["apt", "clone", "speak", "test"]
    assert "libpython3-dev" in steps["apt"] and "--depth 1 ADDRESS" in steps["clone"]
    assert steps["speak"].startswith('make speak TEXT="') and steps["test"].startswith("make test ")


def test_some_of_them_bring_the_clone_that_they_run_in() -> None:
    steps = steps_of(README)
    assert [step.name for step in chosen(steps, ["apt", "speak"])] == ["apt", "clone", "speak"]
    assert [step.name for step in chosen(steps, ["apt"])] == ["apt"]
    assert chosen(steps, []) == steps
    with pytest.raises(FreshError, match="sing is none of the README's commands: apt, clone, speak, test"):
        chosen(steps, ["sing"])


def test_it_speaks_on_every_path_of_the_cpu_with_an_empty_cache() -> None:
    steps = on_every_path(steps_of(README), ["avx2", "avx512", "amx"])
    assert [step.name for step in steps] == ["apt", "clone", "speak", "speak-avx512", "speak-avx2", "test"]
    plain, *narrower = [step.command for step in steps if step.name.startswith("speak")]
    for path, command in zip(("avx512", "avx2"), narrower, strict=True):
        assert command == f"rm -rf {CACHE} && TALKAHEAD_CPU={path} {plain}"
    assert chosen(steps, ["speak"]) == steps[1:-1]
    assert on_every_path(steps_of(README), ["generic"]) == steps_of(README)


def test_a_readme_without_commands_is_refused() -> None:
    with pytest.raises(FreshError):
        steps_of(README.replace("make speak", "make sing"))


def test_pips_files_and_variables_become_variables_whose_folders_are_shown(tmp_path: Path) -> None:
    index, links, certificate = tmp_path / "index" / "simple", tmp_path / "links", tmp_path / "ca.crt"
    for folder in (index, links, tmp_path / ".config" / "pip"):
        folder.mkdir(parents=True)
    certificate.touch()
    (tmp_path / ".config" / "pip" / "pip.conf").write_text(
        f"[global]\nindex-url = https://example.org/simple\nextra-index-url =\n  file://{index}\n"
        f"  https://example.org/more\nfind-links = {links}\ncache-dir = {tmp_path}\ntimeout = 5\n"
        "[install]\ntimeout = 6\n[list]\nformat = json\n"
    )
    environment = {
        "HOME": str(tmp_path),
        "PIP_CACHE_DIR": str(tmp_path),
        "PIP_INDEX_URL": "https://example.org/other",
        "SSL_CERT_FILE": str(certificate),
        "https_proxy": "http://127.0.0.1:3128",
        "SECRET": "one",
    }
    settings = package_settings(environment)
    assert settings.variables == settings.variables | {
        "PIP_EXTRA_INDEX_URL": f"file://{SHOWN}{index} https://example.org/more",
        "PIP_FIND_LINKS": f"{SHOWN}{links}",
        "PIP_INDEX_URL": "https://example.org/other",
        "PIP_TIMEOUT": "6",
        "SSL_CERT_FILE": f"{SHOWN}{certificate}",
        "https_proxy": "http://127.0.0.1:3128",
    }
    assert not {"PIP_CACHE_DIR", "PIP_FORMAT", "SECRET", "HOME"} & set(settings.variables)
    # An index with the folder above it, since its pages lead to files beside it.
    for place in (index.parent, links, certificate):
        assert settings.mounts()[place] == Path(f"{SHOWN}{place}")


def test_a_folder_in_a_folder_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    none = {"PIP_CONFIG_FILE": "/dev/null"}
    settings = package_settings({**none, "PIP_FIND_LINKS": f"{tmp_path}/inner {tmp_path} {tmp_path}/missing"})
    assert settings.mounts() == {tmp_path: Path(f"{SHOWN}{tmp_path}")}
    assert settings.variables["PIP_FIND_LINKS"].endswith(f" {tmp_path}/missing")
