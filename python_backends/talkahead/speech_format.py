"""What all four models have to know of the speech that they make together: one file beside the codec."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from operator import contains
from pathlib import Path
from typing import Self

from talkahead.errors import ArtifactMismatch

NAME = "format.json"


@dataclass(frozen=True)
class SpeechFormat:
    """Rates, sizes and limits of a family's speech. A frame is C codes, one of each codebook.

    Args:
        family: whose frontend, prompts, tokens and codec these are: a folder of `talkahead/families`.
        sample_rate_hz: of the audio, references included.
        hop: samples of a frame.
        codebooks: size of each codebook [C].
        steps_per_frame: tokens that the talker draws for one frame.
        context_frames: what the codec wants to the left of a window's new frames.
        lookahead_frames: and to the right of them.
        silence: codes [C] of a silent frame, of which pauses between segments are made.
        max_positions: prompt rows and steps of a segment, its reference's included; a slot holds so many.
        segment_positions: what the longest segment takes of these without a reference.
        has_encoder: whether the codec turns recordings into frames.
        is_elastic: whether the codec can give frames more or less time.
        unheard_frames: that each segment is drawn with before its speech begins, and that are not made audio;
            at most `context_frames`.
        joins_segments: whether a segment's first windows have what was spoken before it as their context:
            the segment before, or the reference. For codecs that hear all of a window in each sample, and
            would begin anew with very little.
    """

    family: str
    sample_rate_hz: int
    hop: int
    codebooks: tuple[int, ...]
    context_frames: int
    lookahead_frames: int
    silence: tuple[int, ...]
    max_positions: int
    segment_positions: int
    steps_per_frame: int = 1
    has_encoder: bool = True
    is_elastic: bool = False
    unheard_frames: int = 0
    joins_segments: bool = False

    def __post_init__(self) -> None:
        if not self._is_frame(self.silence):
            raise ArtifactMismatch(
                f"{NAME}: silence is {list(self.silence)}; allowed: one code of each codebook, of "
                f"{list(self.codebooks)} codes"
            )
        if not 0 <= self.unheard_frames <= self.context_frames:
            raise ArtifactMismatch(
                f"{NAME}: unheard_frames is {self.unheard_frames}; from 0 to context_frames, which is "
                f"{self.context_frames}"
            )
        if self.segment_positions > self.max_positions:
            raise ArtifactMismatch(
                f"{NAME}: segment_positions is {self.segment_positions}; at most max_positions, which is "
                f"{self.max_positions}"
            )

    @property
    def reference_positions(self) -> int:
        """Prompt rows that a recording and its transcript may take; 0: nothing is spoken like a recording."""
        return self.max_positions - self.segment_positions if self.has_encoder else 0

    def _is_frame(self, codes: tuple[int, ...]) -> bool:
        allowed = map(range, self.codebooks)
        return len(codes) == len(self.codebooks) and all(map(contains, allowed, codes))

    @property
    def frames_per_s(self) -> float:
        return self.sample_rate_hz / self.hop

    def frames(self, seconds: float) -> int:
        """The whole frames nearest to a duration."""
        return round(seconds * self.frames_per_s)

    def frames_covering(self, milliseconds: float) -> int:
        """The fewest frames, at least one, that last so long."""
        return max(math.ceil(milliseconds * self.frames_per_s / 1e3 - 1e-9), 1)

    def save(self, folder: Path) -> None:
        (folder / NAME).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises ArtifactMismatch where there is none, or one with other fields."""
        path = folder / NAME
        if not path.exists():
            raise ArtifactMismatch(
                f"{path} is missing; write it with: python -m build_engines import-checkpoint"
            )
        raw = json.loads(path.read_text(encoding="utf-8"))
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(raw) - known):
            raise ArtifactMismatch(
                f"{path}: unknown fields {', '.join(unknown)}; known: {', '.join(sorted(known))}"
            )
        try:
            return cls(**{**raw, "codebooks": tuple(raw["codebooks"]), "silence": tuple(raw["silence"])})
        except (KeyError, TypeError) as error:
            raise ArtifactMismatch(f"{path}: {error}; it has: {', '.join(sorted(raw))}") from error
