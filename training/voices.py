"""How well every voice and every speed is understood, and whether voices are told apart.

    talkahead serve &   # prints its address
    python -m training.voices --server 127.0.0.1:8001

The server's voices say the same held-out sentences, and the first of them also at other speeds: word errors
by Whisper tiny.en and DNSMOS, beside the first voice's; and how many sentences Resemblyzer finds nearer to
their own voice than to any other, by what each voice says in the sentence after it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from talkahead_client import Client

from instruments import report
from instruments.environment import Environment
from instruments.listening import ListeningTest, SystemFinding, table
from instruments.material import held_out_sentences
from instruments.measures.likeness import likeness
from instruments.measures.speaker import SpeakerEncoder
from instruments.recording import Recording
from instruments.sentences import SPLITS
from instruments.server import served_repository
from training.served_speech import Request, speak_all


@dataclass(frozen=True)
class Told:
    """Of one voice's sentences."""

    voice: str
    own: float
    """Mean cosine to the voice itself."""
    next_best: float
    """And to the nearest of the others."""
    right_percent: float
    """Nearer to their own voice than to any other."""


@dataclass(frozen=True)
class Found:
    """
    Args:
        systems: each voice, and the first one at other speeds.
        apart: of each voice, where there are several.
    """

    systems: list[SystemFinding]
    apart: list[Told]


def ways(voices: Sequence[str], speeds: Sequence[float]) -> dict[str, Request]:
    """By name, what is asked for but for the text: every voice, then the first one at each speed."""
    by_voice = {voice: Request("", voice) for voice in voices}
    return by_voice | {f"{voices[0]} x {speed:g}": Request("", voices[0], speed=speed) for speed in speeds}


def told_apart(said: Mapping[str, Sequence[Recording]]) -> list[Told]:
    """Args: said: the same sentences by each voice, two at least."""
    encoder, found = SpeakerEncoder(), list[Told]()
    for voice, recordings in said.items():
        cosines = []
        for place, recording in enumerate(recordings):
            behind = {name: others[(place + 1) % len(others)] for name, others in said.items()}
            cosines.append(likeness(encoder, recording, behind))
        own = [one.cosines[voice] for one in cosines]
        others = [max(value for name, value in one.cosines.items() if name != voice) for one in cosines]
        right = 100.0 * float(np.mean([one.nearest == voice for one in cosines]))
        found.append(Told(voice, float(np.mean(own)), float(np.mean(others)), right))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    environment = Environment.record(served_repository(options))
    with Client(options.server) as client:
        voices = client.voices()
    sentences = held_out_sentences(options.split, options.per_category, voices[:1], options.seed)
    said: dict[str, list[Recording]] = {}
    for name, way in ways(voices, options.speeds).items():
        asked = [replace(way, text=one.text) for one in sentences]
        spoken = speak_all(options.server, asked, options.streams, options.seed)
        said[name] = [one.recording for one in spoken]
        print(f"voices: {name} has said {len(sentences)} sentences", flush=True)
    listening = ListeningTest([one.words for one in sentences], options.threads)
    apart = told_apart({voice: said[voice] for voice in voices}) if len(voices) > 1 else []
    found = Found(list(listening.compare(said)), apart)
    print(table(found.systems))
    for one in found.apart:
        print(
            f"{one.voice}: {one.right_percent:.0f} of 100 sentences are nearest to their own voice "
            f"({one.own:.2f}; the next best is {one.next_best:.2f})"
        )
    if options.out:
        settings = {"split": options.split, "seed": options.seed}
        report.save(options.out, "voices", environment, settings, [found])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.voices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--server", required=True, help="gRPC address of a running server")
    add("--repository", type=Path,
        help="the server's model repository, which the report names the weights of (unknown)")  # fmt: skip
    add("--per-category", type=int, default=8, metavar="N", help="sentences of each (default: %(default)s)")
    add("--split", default="test", choices=SPLITS[1:])
    add("--speeds", type=float, nargs="*", default=[0.7, 1.4], help="(0.7 1.4)")
    add("--streams", type=int, default=2, help="sentences spoken at a time")
    add("--threads", type=int, default=1, help="of the instruments")
    add("--seed", type=int, default=1, help="of the choice of sentences and of the server's draws")
    add("--out", type=Path, help="JSON with what was found")
    return parser


if __name__ == "__main__":
    main()
