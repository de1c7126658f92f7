"""Speaking like a recording: is the speech nearer to the recording's voice than to the others?

References and what is spoken like them are held-out sentences of the teacher. The same measure on the codec's
copy of the teacher's own speech says how far it can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from talkahead.audio.codec import Codec
from talkahead_client import Reference

from instruments.material import Sentence
from instruments.measures.likeness import Likeness, likeness
from instruments.measures.speaker import SpeakerEncoder
from instruments.percentages import percent
from instruments.recording import Recording
from instruments.teacher import SAMPLE_RATE, VOICES, Teacher
from training.originals import resynthesize
from training.served_speech import Request, speak_all
from training.verdicts import Verdict, at_least

PER_VOICE = 25
_SHORTEST_S, _LONGEST_S = 3.0, 8.0
_NEAREST_PERCENT = 95.0


@dataclass(frozen=True)
class Pair:
    """A sentence in some voice, and another one to be spoken like it."""

    reference: Sentence
    spoken: Sentence


@dataclass(frozen=True)
class ReferenceRow:
    """One pair: how near the talker's speech, and the codec's copy of the teacher's, came to each voice."""

    pair: Pair
    talker: Likeness
    codec: Likeness


@dataclass(frozen=True)
class ReferenceFinding:
    """Utterances nearest to the reference's own voice, in percent."""

    voice: str
    pairs: int
    server: float
    codec: float


def pairs(sentences: Sequence[Sentence], teacher: Teacher, per_voice: int) -> Iterator[Pair]:
    """`per_voice` of each voice, the references 3 to 8 seconds long."""
    for voice in VOICES:
        own = [sentence for sentence in sentences if sentence.voice == voice]
        lengths_s = [len(teacher.speak(one.words, voice).audio) / SAMPLE_RATE for one in own]
        fits = [
            one for one, length_s in zip(own, lengths_s, strict=True) if _SHORTEST_S <= length_s <= _LONGEST_S
        ][:per_voice]
        others = [one for one in own if one not in fits and one.category != "short"]
        yield from (Pair(*pair) for pair in zip(fits, others, strict=False))


def compare_references(
    server: str, chosen: Sequence[Pair], teacher: Teacher, codec: Codec, streams: int, seed: int
) -> Iterator[ReferenceRow]:
    """A row for each pair, in order."""
    requests, encoder = [_request(teacher, pair) for pair in chosen], SpeakerEncoder()
    for pair, speech in zip(chosen, speak_all(server, requests, streams, seed), strict=True):
        taught = {voice: teacher.speak(pair.spoken.words, voice).audio for voice in VOICES}
        copy = resynthesize(codec, taught[pair.reference.voice])
        voices = {voice: Recording.of_int16(audio, SAMPLE_RATE) for voice, audio in taught.items()}
        near = (likeness(encoder, recording, voices) for recording in (speech.recording, copy))
        yield ReferenceRow(pair, *near)


def _request(teacher: Teacher, pair: Pair) -> Request:
    audio = teacher.speak(pair.reference.words, pair.reference.voice).audio
    samples = Recording.of_int16(audio, SAMPLE_RATE).samples
    return Request(pair.spoken.text, reference=Reference(samples, pair.reference.text))


def reference_findings(rows: Sequence[ReferenceRow]) -> Iterator[ReferenceFinding]:
    """Over all, then by voice."""
    yield _finding("all", rows)
    for voice in VOICES:
        yield _finding(voice, [row for row in rows if row.pair.reference.voice == voice])


def _finding(voice: str, rows: Sequence[ReferenceRow]) -> ReferenceFinding:
    return ReferenceFinding(
        voice,
        len(rows),
        server=percent(row.talker.nearest == row.pair.reference.voice for row in rows),
        codec=percent(row.codec.nearest == row.pair.reference.voice for row in rows),
    )


def judge_references(finding: ReferenceFinding) -> Verdict:
    return at_least("nearest to the reference's voice, %", finding.server, _NEAREST_PERCENT)
