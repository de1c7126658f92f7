"""Orpheus's SNAC, random weights: windows against the library's own decode of the whole utterance."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from codec_windows import cut, spoken
from public_folders import SMALL_SNAC
from safetensors.torch import load_file, save_file
from talkahead.audio.noise import Noise
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import CodecWindow, Frames
from talkahead.families.orpheus.codec import SnacCodec, convert_weights

from instruments.public_codecs import SNAC, write_snac

# The library scripts a function with torch.jit when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

HOP = 2048
CPU = torch.device("cpu")


def load(folder: Path, config: dict[str, Any] = SMALL_SNAC) -> SnacCodec:
    source = write_snac(folder / "published", config)
    convert_weights(source, folder)
    return SnacCodec.load(folder, CPU)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_snac(tmp_path_factory.mktemp("snac") / "published", SMALL_SNAC)


@pytest.fixture(scope="module")
def codec(folder: Path) -> SnacCodec:
    """In float64, its folded weights included."""
    import snac

    return SnacCodec(snac.SNAC.from_pretrained(str(folder)).double(), CPU)


def draw(count: int, seed: int = 0) -> Frames:
    return np.random.default_rng(seed).integers(0, 64, (count, 7)).astype(np.int32)


def everything(codec: SnacCodec, frames: npt.NDArray[Any], first: int = 0) -> npt.NDArray[np.float64]:
    audio: npt.NDArray[np.float64] = codec.samples(torch.from_numpy(frames.astype(np.int64))[None], [first])[
        0
    ].numpy()
    return audio


def streamed(codec: SnacCodec, frames: Frames, sizes: Sequence[int]) -> npt.NDArray[np.float64]:
    """In the model's precision, which `decode` rounds."""
    parts = []
    for window in cut(frames, sizes, codec.reach_frames, codec.reach_frames):
        heard = range(window.context * HOP, (window.context + window.new) * HOP)
        rows = torch.from_numpy(window.frames)[None]
        parts.append(codec.samples(rows, [window.position - window.context], heard)[0].numpy())
    return np.concatenate(parts)


def library_decode(folder: Path, frames: Frames, monkeypatch: pytest.MonkeyPatch) -> npt.NDArray[np.float64]:
    """`SNAC.decode` of the whole, untouched but for its source of random numbers."""
    import snac

    model = snac.SNAC.from_pretrained(str(folder)).double()
    rates = iter((32, 256, 1024, 2048))
    places = iter(range(4))

    def keyed(shape: tuple[int, int, int], **_: object) -> torch.Tensor:
        numbers = torch.arange(len(frames)) * 4 + next(places)
        return Noise(1, next(rates))(numbers[None]).double().reshape(shape)

    tokens = torch.from_numpy(frames.astype(np.int64))
    codes = [tokens[:, at].reshape(1, -1) for at in ([0], [1, 4], [2, 3, 5, 6])]
    with torch.inference_mode(), monkeypatch.context() as patched:
        patched.setattr(torch, "randn", keyed)
        audio: npt.NDArray[np.float64] = model.decode(codes)[0, 0].numpy()
    return audio


@pytest.mark.parametrize("sizes", [[17], [1] * 17, [1, 2, 4, 8, 2], [5, 12], [16, 1]])
def test_streamed_is_what_the_library_decodes_at_once(
    codec: SnacCodec, folder: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    frames = draw(17)
    whole = library_decode(folder, frames, monkeypatch)
    assert len(whole) == 17 * HOP
    audio = streamed(codec, frames, sizes)
    np.testing.assert_allclose(audio, whole, rtol=0, atol=1e-9)
    assert np.abs(whole).max() > 1e-3
    # The first and the last frame are heard: the reference's windows never speak them.
    assert np.abs(audio[:HOP]).max() > 1e-3 and np.abs(audio[-HOP:]).max() > 1e-3


def test_a_frame_less_of_context_or_lookahead_is_heard(codec: SnacCodec) -> None:
    frames = draw(17)
    whole, reach = everything(codec, frames), codec.reach_frames
    assert reach == 3
    for left, right in ((reach - 1, reach), (reach, reach - 1)):
        samples = everything(codec, frames[8 - left : 9 + right], 8 - left)
        difference = np.abs(samples[left * HOP : (left + 1) * HOP] - whole[8 * HOP : 9 * HOP]).max()
        assert difference > 1e-9


def test_the_reach_is_that_of_the_layers(codec: SnacCodec) -> None:
    """A fine code is heard in 4757 samples to both sides of its own 512, and no further."""
    one = draw(12)
    other = one.copy()
    other[6, 2] = (one[6, 2] + 1) % 64  # the first of the frame's four
    heard = np.flatnonzero(everything(codec, one) != everything(codec, other)) - 6 * HOP
    assert -4757 <= heard[0] < -4000
    assert 4511 < heard[-1] - 511 <= 4757


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("side", ["before", "behind"])
def test_each_block_is_given_what_is_heard_and_no_more(codec: SnacCodec, block: int, side: str) -> None:
    layout, heard, frames = codec.layout, range(3 * HOP, 9 * HOP), draw(12)
    given = layout.given(heard, 12)
    assert [len(one) for one in given] == [38, 208, 1568, 6188]  # of 48, 384, 3072, 12288
    less = list(given)
    first, stop = given[block].start + (side == "before"), given[block].stop - (side == "behind")
    less[block] = range(first, stop)
    whole, shorter = (spoken_of(codec, frames, heard, one) for one in (given, less))
    assert np.abs(whole - shorter).max() > 1e-12  # rounding is a thousandth of that


def spoken_of(
    codec: SnacCodec, frames: Frames, heard: range, given: Sequence[range]
) -> npt.NDArray[np.float64]:
    """The samples `heard`, where blocks are given so much."""
    codes, numbers = torch.from_numpy(frames.astype(np.int64))[None], torch.arange(len(frames))[None]
    with torch.inference_mode():
        (made,) = codec.network()(codes, *codec.layout.told(numbers, given))
    start = heard.start - given[-1].start * codec.layout.rates[-1]
    audio: npt.NDArray[np.float64] = made[0, start : start + len(heard)].numpy()
    return audio


def test_noise_is_heard_and_keyed_by_place(codec: SnacCodec) -> None:
    frames = np.repeat(draw(1), 12, axis=0)
    at_start = everything(codec, frames).reshape(12, HOP)
    assert np.abs(at_start - everything(codec, frames, 5).reshape(12, HOP)).max() > 1e-6
    np.testing.assert_array_equal(at_start, everything(codec, frames).reshape(12, HOP))
    assert np.abs(at_start[4] - at_start[5]).max() > 1e-6  # the same codes all around, but other noise


def test_code_zero_is_a_code(codec: SnacCodec) -> None:
    frames = draw(9)
    frames[4] = 0
    assert streamed(codec, frames, [3, 3, 3]).shape == (9 * HOP,)
    without = streamed(codec, np.delete(frames, 4, axis=0), [8])
    assert without.shape == (8 * HOP,)
    assert np.abs(everything(codec, np.zeros((9, 7)))).max() > 1e-4


def test_streams_do_not_hear_each_other(codec: SnacCodec) -> None:
    reach = codec.reach_frames
    utterances = [
        list(cut(draw(sum(sizes), seed), sizes, reach, reach))
        for seed, sizes in enumerate([[2, 4, 5], [2, 4, 5], [2, 2, 3]])
    ]
    for utterance, audio in zip(utterances, spoken(codec, utterances), strict=True):
        assert audio.dtype == np.float32 and audio.shape == (sum(part.new for part in utterance) * HOP,)
        np.testing.assert_array_equal(audio, spoken(codec, [utterance])[0])


def test_a_batch_is_what_its_windows_are_alone(codec: SnacCodec) -> None:
    """As a GPU decodes them, each at its own place in its utterance."""
    windows, firsts = [draw(5, seed) for seed in range(3)], [0, 7, 2]
    together = codec.samples(torch.from_numpy(np.stack(windows).astype(np.int64)), firsts).numpy()
    for audio, window, first in zip(together, windows, firsts, strict=True):
        np.testing.assert_allclose(audio, everything(codec, window, first), rtol=0, atol=1e-9)


def test_all_of_the_model_is_on_the_device(folder: Path) -> None:
    import snac

    model = SnacCodec(snac.SNAC.from_pretrained(str(folder)), torch.device("meta")).model
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} == {"meta"}


def test_encoded_is_as_the_library_encodes(codec: SnacCodec) -> None:
    audio = np.random.default_rng(0).normal(0, 0.1, 5 * HOP).astype(np.float32)
    frames = codec.encode(audio)
    coarse, middle, fine = codec.model.encode(torch.from_numpy(audio).double()[None, None])
    assert frames.shape == (5, 7) and frames.dtype == np.int32
    assert frames[:, 0].tolist() == coarse[0].tolist()
    assert frames[:, [1, 4]].ravel().tolist() == middle[0].tolist()
    assert frames[:, [2, 3, 5, 6]].ravel().tolist() == fine[0].tolist()


def test_format(codec: SnacCodec) -> None:
    speech = codec.speech_format(max_positions=2048, segment_positions=900)
    assert (speech.sample_rate_hz, speech.hop, speech.steps_per_frame) == (24_000, HOP, 7)
    assert (speech.context_frames, speech.lookahead_frames) == (3, 3)
    assert speech.codebooks == (64,) * 7
    assert list(speech.silence) == codec.encode(np.zeros(20 * HOP, np.float32))[10].tolist()
    assert codec.speech_format(2048, 900, silence=(0,) * 7).silence == (0,) * 7


def test_without_the_encoder_it_speaks_and_does_not_hear(tmp_path: Path) -> None:
    load(tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    save_file({name: value for name, value in state.items() if not name.startswith("encoder.")}, path)
    codec = SnacCodec.load(tmp_path, CPU)
    assert everything(codec, draw(2)).shape == (2 * HOP,)
    with pytest.raises(TalkaheadError, match="holds no encoder"):
        codec.encode(np.zeros(HOP, np.float32))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decoder.model.0.bias", None),
        ("decoder.model.0.bias", torch.zeros(3, 5)),
        ("decoder.rest", torch.zeros(3, 5)),
    ],
    ids=["missing", "misshapen", "unknown"],
)
def test_other_tensors_are_refused(tmp_path: Path, name: str, value: torch.Tensor | None) -> None:
    load(tmp_path)
    path = tmp_path / "model.safetensors"
    state = {**load_file(path), name: value}
    save_file({name: value for name, value in state.items() if value is not None}, path)
    with pytest.raises(ArtifactMismatch, match=name):
        SnacCodec.load(tmp_path, CPU)


def test_other_snacs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactMismatch, match="vq_strides"):
        load(tmp_path, {**SMALL_SNAC, "vq_strides": [8, 4, 2, 1]})
    (tmp_path / "config.json").write_text('{"model_type": "mimi"}')
    with pytest.raises(ArtifactMismatch, match="model_type"):
        SnacCodec.load(tmp_path, CPU)


def test_the_published_shape(tmp_path: Path) -> None:
    codec = load(tmp_path, SNAC)
    assert (codec.hop, codec.reach_frames) == (HOP, 3)
    window = CodecWindow(np.full((3, 7), 4095), context=1, new=1, lookahead=1, position=7)
    [decoded] = codec.decode([window], [None])
    assert decoded.audio.shape == (HOP,) and np.isfinite(decoded.audio).all()


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "snac", None)
    with pytest.raises(TalkaheadError, match=r"snac.*pip install 'talkahead\[families\]'"):
        SnacCodec.load(tmp_path, CPU)
