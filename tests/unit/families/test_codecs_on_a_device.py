"""Codecs and prompt encoders away from the CPU: what they are given is brought there, what they made is
fetched, and nothing of one side meets the other in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from codec_windows import cut
from device_traffic import BRINGING, META, Traffic
from fsq_folder import write_folder
from public_folders import SMALL_SNAC
from replayed import Replayed
from talkahead.backbone import cuda_graphs
from talkahead.families.contracts import TORCH, Codec, CodecWindow, Samples
from talkahead.families.phonemic import spectral_codec
from talkahead.families.phonemic.prompt import PhonemePromptEncoder
from talkahead.families.phonemic.spectral_codec import SpectralCodec

from instruments.public_codecs import write_snac

REPOSITORY = Path(__file__).parents[3] / "model_repository"


def shipped(folder: Path, device: torch.device) -> Codec:
    return SpectralCodec.load(REPOSITORY / "vocoder" / "1", device, TORCH)


def orpheus(folder: Path, device: torch.device) -> Codec:
    pytest.importorskip("snac")
    from talkahead.families.orpheus.codec import SnacCodec, convert_weights

    (folder / "made").mkdir()
    convert_weights(write_snac(folder / "published", SMALL_SNAC), folder / "made")
    return SnacCodec.load(folder / "made", device, TORCH)


def llasa(folder: Path, device: torch.device) -> Codec:
    transformers = pytest.importorskip("transformers")
    from talkahead.families.llasa.codec import load_codec

    write_folder(folder, transformers.Xcodec2Model)
    return load_codec(folder, device, TORCH)


CODECS = {"shipped": (shipped, 1), "orpheus": (orpheus, 7), "llasa": (llasa, 1)}


@pytest.mark.parametrize(("make", "codebooks"), CODECS.values(), ids=CODECS)
def test_windows_are_brought_to_the_device_and_audio_is_fetched(
    make: Callable[[Path, torch.device], Codec], codebooks: int, tmp_path: Path
) -> None:
    codec = make(tmp_path, META)
    frames = np.random.default_rng(0).integers(0, 16, (15, codebooks))
    windows = [CodecWindow(frames, 3, 10, 2, position) for position in (3, 13)]
    with Traffic() as traffic, pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        codec.decode(windows, [None, None])
    assert traffic.kinds & BRINGING and not traffic.kinds - BRINGING - {"_has_compatible_shallow_copy_type"}


class Watched(Replayed):
    """Sees to it that nothing passes between host and device in what it records."""

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        def watched() -> None:
            with Traffic() as traffic:
                work()
            assert traffic.seen == []

        return super().record(watched)


def recorded_by(recorder: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cuda_graphs, spectral_codec):
        monkeypatch.setattr(module, "recorder_on", lambda device: recorder)


@pytest.mark.parametrize(("make", "codebooks"), CODECS.values(), ids=CODECS)
def test_nothing_passes_in_what_is_recorded(
    make: Callable[[Path, torch.device], Codec],
    codebooks: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Watched()
    recorded_by(recorder, monkeypatch)
    codec = make(tmp_path, META)
    window = CodecWindow(np.zeros((15, codebooks), np.int64), 3, 10, 2, 3)
    for _ in range(4):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
            codec.decode([window], [None])
    assert recorder.replays


@pytest.mark.parametrize(("make", "codebooks"), CODECS.values(), ids=CODECS)
def test_recorded_codecs_sound_as_others(
    make: Callable[[Path, torch.device], Codec],
    codebooks: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sounds, recorder = [], Replayed()
    for place in ("eager", "recorded"):
        (tmp_path / place).mkdir()
        codec = make(tmp_path / place, torch.device("cpu"))
        sounds.append(spoken_together(codec, utterances_of(codebooks)))
        recorded_by(recorder, monkeypatch)
    assert recorder.replays > 5
    for eager, recorded in zip(*sounds, strict=True):
        np.testing.assert_allclose(recorded, eager, rtol=0, atol=1e-5)


def utterances_of(codebooks: int) -> list[list[CodecWindow]]:
    """They begin together and end one after the other; their windows keep coming in few sizes."""
    chance = np.random.default_rng(0)
    return [
        list(cut(chance.integers(0, 16, (8 * count, codebooks)).astype(np.int32), [8] * count, 4, 2))
        for count in (11, 13, 8)
    ]


def spoken_together(codec: Codec, utterances: Sequence[Sequence[CodecWindow]]) -> list[Samples]:
    """What is left of them is decoded together, window after window."""
    heard: list[list[Samples]] = [[] for _ in utterances]
    states: list[object | None] = [None] * len(utterances)
    for turn in range(max(map(len, utterances))):
        rows = [row for row, windows in enumerate(utterances) if turn < len(windows)]
        decoded = codec.decode([utterances[row][turn] for row in rows], [states[row] for row in rows])
        for row, one in zip(rows, decoded, strict=True):
            heard[row].append(one.audio)
            states[row] = one.state
    return list(map(np.concatenate, heard))


def test_symbols_are_brought_to_the_device() -> None:
    encoder = PhonemePromptEncoder.load(REPOSITORY / "encoder" / "1", META)
    with Traffic() as traffic, torch.inference_mode():
        prompt = encoder.prompt(np.zeros((12, 4), np.int32), 0, None)
    assert prompt.device == META and prompt.shape[1] == encoder.width
    assert traffic.kinds and not traffic.kinds - BRINGING


def test_recorded_prompts_are_those_of_the_text_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of several lengths; each prompt the same bits whenever it comes, once it is recorded."""
    chance, recorder = np.random.default_rng(0), Replayed()
    segments = [chance.integers(0, 8, (length, 4)).astype(np.int32) for length in (5, 16, 17, 30)]
    eager = PhonemePromptEncoder.load(REPOSITORY / "encoder" / "1", torch.device("cpu"), TORCH)
    recorded_by(recorder, monkeypatch)
    recorded = PhonemePromptEncoder.load(REPOSITORY / "encoder" / "1", torch.device("cpu"), TORCH)
    for _ in range(4):
        prompts = [recorded.prompt(one, 0, None) for one in segments]
        for prompt, segment in zip(prompts, segments, strict=True):
            torch.testing.assert_close(prompt, eager.prompt(segment, 0, None), rtol=0, atol=0.05)
    assert recorder.replays > 8
    again = [recorded.prompt(one, 0, None) for one in reversed(segments)]
    assert all(torch.equal(one, other) for one, other in zip(prompts, reversed(again), strict=True))


def test_nothing_passes_in_a_recorded_text_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Watched()
    recorded_by(recorder, monkeypatch)
    encoder = PhonemePromptEncoder.load(REPOSITORY / "encoder" / "1", META)
    for _ in range(4):
        prompt = encoder.prompt(np.zeros((12, 4), np.int32), 0, None)
    assert recorder.replays == 2 and prompt.shape == (13, encoder.width)


@pytest.mark.needs("gpu")
@pytest.mark.parametrize(("make", "codebooks"), CODECS.values(), ids=CODECS)
def test_on_a_gpu_a_codec_sounds_as_on_a_cpu(
    make: Callable[[Path, torch.device], Codec], codebooks: int, tmp_path: Path
) -> None:
    """Its windows' sizes keep coming, so that most are replayed."""
    sounds = []
    for kind in ("cpu", "cuda"):
        (tmp_path / kind).mkdir()
        sounds.append(spoken_together(make(tmp_path / kind, torch.device(kind)), utterances_of(codebooks)))
    for cpu, cuda in zip(*sounds, strict=True):
        np.testing.assert_allclose(cuda, cpu, atol=2e-2)
