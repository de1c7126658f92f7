"""Makes every shipped weight from nothing: `make train`. Each stage goes on where it stopped."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

DRAFTS = ("heads", "heads-6", "mtp", "draft_lm")
STAGES = (
    *("corpus", "codec", "phones", "refine", "dataset", "talker", "export"),
    *("drafts", "export-drafts", "calibrate"),
)


def commands(options: argparse.Namespace) -> dict[str, list[str]]:
    """The command line of each stage."""
    corpus, out = options.build / "corpus", options.build / "training"
    codec, dataset = out / "refined", out / "dataset.npz"
    stages: dict[str, list[object]] = {
        "corpus": [
            *("training.corpus", "--folder", corpus),
            *("--prose", options.prose, "--numbers", options.numbers),
            *("--conversation", options.conversation, "--usage", options.usage),
        ],
        "codec": ["training.train_codec", "--corpus", corpus, "--out", out, "--steps", options.codec_steps],
        "phones": ["training.train_phones", "--corpus", corpus, "--out", out],
        "refine": [
            *("training.refine_codec", "--corpus", corpus, "--codec", out / "codec", "--out", out, "--codes"),
            *("--phones", out / "phones.safetensors", "--steps", options.refine_steps),
        ],
        "dataset": ["training.dataset", "--corpus", corpus, "--codec", codec, "--out", dataset],
        "talker": [
            *("training.train_talker", "--dataset", dataset, "--codec", codec, "--out", out),
            *("--steps", options.talker_steps),
        ],
        "export": ["training.export", "--training", out, "--repository", options.repository],
        "drafts": [
            *("training.train_drafts", "--kind", *DRAFTS, "--dataset", dataset, "--out", out / "drafts"),
            *("--repository", options.repository, "--steps", options.draft_steps),
        ],
        "export-drafts": [
            *("training.export_drafts", "--drafts", out / "drafts", "--repository", options.repository)
        ],
        "calibrate": [
            *("build_engines", "calibrate", "--repository", options.repository, "--dataset", dataset)
        ],
    }
    return {name: [sys.executable, "-m", *map(str, words)] for name, words in stages.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="training", description=__doc__)
    parser.add_argument(
        "--build", type=Path, default=Path("build"), help="where everything in between is kept"
    )
    parser.add_argument("--repository", type=Path, default=Path("model_repository"))
    parser.add_argument("--prose", type=int, default=24_000, help="texts without digits (about 20 hours)")
    parser.add_argument("--numbers", type=int, default=6_000, help="texts with digits (about 8 hours)")
    parser.add_argument("--conversation", type=int, default=10_000, help="dialogue, names (about 7 hours)")
    parser.add_argument("--usage", type=int, default=40_000, help="WordNet's examples (about 26 hours)")
    parser.add_argument("--codec-steps", type=int, default=3_000)
    parser.add_argument("--refine-steps", type=int, default=900, help="of the codec's decoder")
    parser.add_argument("--talker-steps", type=int, default=4_000)
    parser.add_argument("--draft-steps", type=int, default=1_000, help="of each draft")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    options = parser.parse_args()
    for name, command in commands(options).items():
        if name in options.stages:
            print(f"training: {name}", flush=True)
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
