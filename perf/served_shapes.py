"""`python -m perf.served_shapes`: the whole server with a public checkpoint's true shape, talker and codec.

Random weights, written once as they would be downloaded, imported and exported by the commands that users
have, kept in `--folder`. Random weights accept no draft, so acceptance is set: `mtp` drafts one token, which
`biased` accepts in `--acceptance` of all cases, at the cost of a real module and a real check. What a trained
draft of this talker would have accepted is not known here. By turns with it, plain decoding.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from talkahead.backbone.decoder_choice import Precision
from talkahead.backbone.decoder_config import NAME as DECODER
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.drafting.draft_artifact import Draft, target_hash
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.mtp_modules import MtpModules
from talkahead.manifest import Manifest, sha256
from talkahead_client.protocol import ParameterValue

from instruments import report
from instruments.changed_repository import changed_repository
from instruments.environment import Environment
from instruments.server import server_at
from perf.arguments import add_precision, add_slices, at_least
from perf.cell import Cell
from perf.shapes.random_download import KINDS, write_download
from perf.streams import Load, Mode
from perf.turns import Configuration, by_turns

KIND = "served shapes"
"""Of reports: the weights are random."""
_DRAFTER = "mtp"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    repository = imported(options.shape, options.folder / options.shape)
    environment = Environment.record(repository=None)
    ways: list[dict[str, ParameterValue]] = [{"drafter": "none"}, accepting(options.acceptance)]
    talker = {"talker.precision": str(options.precision)}
    if options.threads:
        talker["talker.threads"] = str(options.threads)
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory(prefix="talkahead-shapes-") as folder:
        served = changed_repository(repository, Path(folder) / "models", talker)
        with server_at(None, None, ["--check-interval", "0"], served) as server:
            asked = [Configuration.of(server, {**way, **bounded(options.speech_seconds)}) for way in ways]
            for streams in options.streams:
                load = Load(Mode.CLOSED, streams, options.seconds, None, {})
                plain, drafted = by_turns(asked, load, options.slices)
                cells += [drafted.over(plain), plain]
    print(report.markdown([_row(one) for one in cells]))
    names = ("shape", "precision", "threads", "acceptance", "seconds", "slices", "speech_seconds")
    report.save(options.out, KIND, environment, {name: getattr(options, name) for name in names}, cells)
    return 1 if any(one.failed for one in cells) else 0


def imported(shape: str, folder: Path) -> Path:
    """The model repository of a shape; made where it is not there yet, whole or not at all."""
    repository = folder / "repository"
    if repository.exists():
        return repository
    kind, made = KINDS[shape], folder / "unfinished"
    for earlier in (folder / "talker", folder / "codec", made):
        shutil.rmtree(earlier, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{shape}: random weights into {folder}", file=sys.stderr, flush=True)
    torch.manual_seed(0)
    write_download(shape, folder / "talker", folder / "codec")
    codec = ("--codec", str(folder / "codec"))
    _build(
        "import-checkpoint", kind.family, str(folder / "talker"), *codec, "--out", str(made), *kind.options
    )
    _build("export", "--repository", str(made))
    _put_draft(made / "talker" / "1")
    for used in (folder / "talker", folder / "codec"):
        shutil.rmtree(used)
    made.rename(repository)
    return repository


def _build(*command: str) -> None:
    print(f"build_engines {' '.join(command[:2])}", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "build_engines", *command], check=True, stdout=subprocess.DEVNULL)


def _put_draft(talker: Path) -> None:
    """One module, whose weights are random too."""
    folder = draft_folder(talker, _DRAFTER)
    module = MtpModules(DecoderConfig.from_file(talker / DECODER), 1, sees_tokens=True).to(torch.bfloat16)
    target = target_hash(talker)
    Draft(_DRAFTER, module, target).save(folder)
    files = {path.name: sha256(path) for path in folder.iterdir()}
    Manifest("python -m perf.served_shapes", "unknown", "none", 0, {}, files, "Apache-2.0", target).write(
        folder
    )


def accepting(share: float) -> dict[str, ParameterValue]:
    """Requests whose drafts are accepted so often."""
    return {"drafter": _DRAFTER, "verifier": "biased", "bias": share, "draft_length": 1, "pin_draft": True}


def bounded(speech_s: float) -> Mapping[str, ParameterValue]:
    """A random talker does not end by itself; and nobody is refused for a wait."""
    return {"max_seconds": speech_s, "urgency": 1}


def _row(one: Cell) -> dict[str, str]:
    return {
        "drafts": one.pair,
        "streams": str(one.streams),
        "tokens a step": f"{one.tokens_per_step:.2f}",
        "first chunk": f"{one.first_chunk_ms.p50:,.0f} ms",
        "real-time factor": f"{one.real_time_factor.p50:.2f}",
        "audio s/s": f"{one.audio_s_per_s:.2f}",
        "over plain": "" if one.gain is None else str(one.gain.audio_s_per_s),
        "failed": str(one.failed),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf.served_shapes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--shape", choices=KINDS, default="llasa-1b", help="(%(default)s)")
    add("--folder", type=Path, default=Path("build/served_shapes"), help="(%(default)s)")
    add_precision(parser, Precision.INT4)
    add("--threads", type=at_least(1), help="that share the talker's forwards (as many as it chooses)")
    add("--acceptance", type=float, default=0.7, help="of the one token that is drafted (%(default)g)")
    add("--streams", type=at_least(1), nargs="+", default=[1, 4, 16], help="closed (1 4 16)")
    add("--speech-seconds", type=float, default=4.0, help="of each text (%(default)g)")
    add_slices(parser, seconds=40.0)
    add("--out", type=Path, default=Path("perf/results/served-shapes.json"), help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
