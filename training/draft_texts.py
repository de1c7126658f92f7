"""Texts of the training, one a line: what the talker says itself for its drafts to learn from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from instruments.sentences import assorted


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="training.draft_texts", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=12_000)
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    texts = assorted("train", options.count)
    options.out.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    print(f"draft texts: {len(texts):,} in {options.out}")


if __name__ == "__main__":
    main()
