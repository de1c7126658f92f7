"""Puts trained drafts beside the talker that they belong to, in half precision, each with its manifest."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from talkahead.drafting.draft_artifact import CONFIG, WEIGHTS, Draft
from talkahead.manifest import Manifest, readable_files

from instruments import recipes
from instruments.provenance import LICENCE, source_commit


def put(source: Path, talker: Path, note: str) -> Path:
    """One draft into the talker's folder. Raises ArtifactMismatch when it was trained on another talker."""
    folder = talker / "drafts" / source.name
    report = json.loads(source.with_suffix(".report.json").read_text(encoding="utf-8"))
    data = " ".join(filter(None, ("What the talker was trained on.", history(report), note)))
    write(Draft.load(source, talker), folder, command_of(report), data, report["steps"], report["metrics"])
    return folder


def command_of(report: Mapping[str, Any]) -> str:
    """What makes a draft like this one; `report`: as its training wrote it."""
    name, trial = report["recipe"]["name"], report["trial"]
    if not trial:
        return recipes.command(name)
    words = (f" --{option.replace('_', '-')} {value}" for option, value in trial.items())
    return f"python -m training.train_drafts --recipe {name}{''.join(words)}"


def history(report: Mapping[str, Any]) -> str:
    """How it learned, from its first step on."""
    recipe = recipes.Recipe.from_json(report["recipe"])
    told = [recipe.told]
    if report["steps"] < recipe.steps:
        told.append(f"It was stopped after {report['steps']:,} of them.")
    if report["began_as"]:
        told.append(f"It began as the draft whose weights' hash is {report['began_as'][:12]}.")
    return " ".join(told)


def write(
    draft: Draft, folder: Path, command: str, data: str, steps: int, metrics: Mapping[str, object]
) -> None:
    """Saves a draft in half precision, with its manifest."""
    replace(draft, network=draft.network.to(torch.bfloat16)).save(folder)
    files = readable_files(folder / name for name in (CONFIG, WEIGHTS))
    Manifest(command, source_commit(), data, steps, dict(metrics), files, LICENCE, draft.target).write(folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.export_drafts", description=__doc__)
    add = parser.add_argument
    add("--drafts", type=Path, default=Path("build/training/drafts"), help="what the trainings wrote")
    add("--names", nargs="+", help="of the drafts to export; all of them by default")
    add("--repository", type=Path, default=Path("model_repository"), help="(%(default)s)")
    add("--note", default="", help="what else the manifests should say of this training")
    options = parser.parse_args()
    talker = options.repository / "talker" / "1"
    names = options.names or [path.parent.name for path in sorted(options.drafts.glob(f"*/{CONFIG}"))]
    for name in names:
        print(f"export: {put(options.drafts / name, talker, options.note)}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
