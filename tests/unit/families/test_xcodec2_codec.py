"""Llasa's XCodec2, random weights: windows against the library's own decode of the whole utterance.

The weights are not a trained model's: how near windows come to the whole says what the arithmetic does, not
how speech sounds.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from codec_windows import cut, spoken
from fsq_folder import snr_db, write_folder
from safetensors.torch import load_file, save_file
from talkahead.errors import ArtifactMismatch, TalkaheadError
from talkahead.families.contracts import CodecWindow, Frames, Samples
from talkahead.families.cross_fade import cross_fade
from talkahead.families.llasa.codec import Xcodec2Codec, convert_weights, load_codec
from torch import nn
from transformers import SeamlessM4TFeatureExtractor, Xcodec2Model

from instruments.public_codecs import write_decoder

HOP = 320
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("xcodec2")


@pytest.fixture(scope="module")
def model(folder: Path) -> Xcodec2Model:
    return write_folder(folder, Xcodec2Model)


@pytest.fixture(scope="module")
def codec(folder: Path, model: Xcodec2Model) -> Xcodec2Codec:
    return Xcodec2Codec.load(folder, CPU)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory, model: Xcodec2Model) -> Xcodec2Codec:
    """Of the same weights, but for the side taps."""
    folder = tmp_path_factory.mktemp("causal")
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "causal": True}))
    state = load_file(folder / "model.safetensors")
    for name, value in state.items():
        if "_net." in name and value.ndim == 3:
            state[name] = value[..., 1:2].contiguous()
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    return Xcodec2Codec.load(folder, CPU)


def draw(count: int, seed: int = 0) -> Frames:
    return np.random.default_rng(seed).integers(0, 65536, (count, 1)).astype(np.int32)


@torch.inference_mode()
def whole(model: Xcodec2Model, frames: Frames) -> Samples:
    codes = torch.from_numpy(frames.astype(np.int64)).T[None]
    samples: Samples = model.decode(audio_codes=codes).audio_values[0, 0].numpy()
    return samples


def streamed(codec: Xcodec2Codec, frames: Frames, sizes: list[int], context: int, lookahead: int) -> Samples:
    [audio] = spoken(codec, [list(cut(frames, sizes, context, lookahead))])
    return audio


def test_one_window_is_what_the_library_decodes(codec: Xcodec2Codec, model: Xcodec2Model) -> None:
    frames = draw(30)
    wanted = whole(model, frames)
    assert wanted.std() > 0.01
    np.testing.assert_allclose(streamed(codec, frames, [30], 0, 0), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("sizes", [[25] * 6, [2, 4, 8, 16, 25, 25, 25, 25, 20], [149, 1], [1, 149]])
def test_streamed_is_near_what_the_library_decodes_at_once(
    codec: Xcodec2Codec, model: Xcodec2Model, sizes: list[int]
) -> None:
    frames = draw(150)
    audio = streamed(codec, frames, sizes, codec.context_frames, codec.lookahead_frames)
    assert audio.shape == (150 * HOP,)
    assert snr(audio, whole(model, frames)) > 10


def test_more_context_and_lookahead_come_nearer(codec: Xcodec2Codec, model: Xcodec2Model) -> None:
    frames = draw(150)
    wanted = whole(model, frames)
    near = [
        snr(streamed(codec, frames, [25] * 6, *around), wanted) for around in ((5, 0), (25, 5), (125, 25))
    ]
    assert near == sorted(near) and near[2] > near[0] + 3


def snr(audio: Samples, wanted: Samples) -> float:
    return snr_db(torch.from_numpy(audio), torch.from_numpy(wanted))


def test_windows_are_joined_by_a_cross_fade_of_one_frame(codec: Xcodec2Codec) -> None:
    before, after = cut(draw(20), [8, 12], context=4, lookahead=3)
    [first] = codec.decode([before], [None])
    [cold], [joined] = codec.decode([after], [None]), codec.decode([after], [first.state])
    tail = codec.samples(torch.from_numpy(before.frames)[None])[0].numpy()[8 * HOP : 9 * HOP]
    np.testing.assert_allclose(joined.audio[:HOP], cross_fade(tail, cold.audio[:HOP]), rtol=0, atol=1e-6)
    np.testing.assert_array_equal(joined.audio[HOP:], cold.audio[HOP:])
    assert np.abs(joined.audio[:HOP] - cold.audio[:HOP]).max() > 1e-4
    assert joined.state is None  # the utterance ended


def test_streams_do_not_hear_each_other(codec: Xcodec2Codec) -> None:
    frames = [draw(40, seed) for seed in range(4)]
    cuttings = [[10, 20, 10], [10, 20, 10], [2, 4, 34], [20, 10, 10]]
    utterances = [list(cut(*each, context=12, lookahead=5)) for each in zip(frames, cuttings, strict=True)]
    together = spoken(codec, utterances)
    for utterance, audio in zip(utterances, together, strict=True):
        np.testing.assert_allclose(audio, spoken(codec, [utterance])[0], rtol=0, atol=1e-5)


def test_loud_audio_is_clipped(codec: Xcodec2Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "samples", lambda frames: torch.full((len(frames), 3 * HOP), -3.0))
    [decoded] = codec.decode([CodecWindow(draw(3).astype(np.int64), 1, 1, 1, position=1)], [None])
    assert decoded.audio.tolist() == [-1.0] * HOP


def test_encoded_is_as_the_library_encodes(codec: Xcodec2Codec, model: Xcodec2Model) -> None:
    audio = np.random.default_rng(0).normal(0, 0.1, 20 * HOP).astype(np.float32)
    frames = codec.encode(audio)
    assert frames.shape == (20, 1) and frames.dtype == np.int32
    padded = np.pad(audio, (0, HOP))
    features = SeamlessM4TFeatureExtractor()(np.pad(padded, 160), sampling_rate=16_000, return_tensors="pt")
    with torch.inference_mode():
        codes = model.encode(torch.from_numpy(padded)[None, None], features["input_features"]).audio_codes
    assert frames[:, 0].tolist() == codes[0, 0, :20].tolist()
    assert len(set(frames[:, 0].tolist())) > 1


def test_format(codec: Xcodec2Codec) -> None:
    speech = codec.speech_format(max_positions=2048, segment_positions=900)
    assert (speech.family, speech.sample_rate_hz, speech.hop, speech.frames_per_s) == (
        "llasa",
        16_000,
        HOP,
        50,
    )
    assert (speech.codebooks, speech.steps_per_frame) == ((65536,), 1)
    assert (speech.context_frames, speech.lookahead_frames) == (50, 5)
    assert list(speech.silence) == codec.encode(np.zeros(50 * HOP, np.float32))[25].tolist()


def test_the_published_shape(tmp_path: Path) -> None:
    write_decoder(tmp_path, Xcodec2Model)
    speech = Xcodec2Codec.load(tmp_path, CPU).speech_format(2048, 900, silence=(7,))
    assert (speech.sample_rate_hz, speech.hop, speech.codebooks, speech.silence) == (
        16_000,
        320,
        (65536,),
        (7,),
    )


def test_an_import_takes_the_folder_as_it_is(
    folder: Path, codec: Xcodec2Codec, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    convert_weights(folder, tmp_path)
    frames = torch.from_numpy(draw(5)[None].astype(np.int64))
    torch.testing.assert_close(load_codec(tmp_path, CPU).samples(frames), codec.samples(frames))
    (tmp_path / "model.safetensors").unlink()
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(ArtifactMismatch, match=r"model.safetensors is missing"):
        convert_weights(tmp_path, elsewhere)


def test_another_codec_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "xcodec"}')
    with pytest.raises(ArtifactMismatch, match="model_type is 'xcodec'; allowed: 'xcodec2'"):
        load_codec(tmp_path, CPU)


@pytest.mark.parametrize("part", ["acoustic_encoder.", "semantic_encoder."])
def test_without_the_encoder_it_speaks_and_does_not_hear(
    tmp_path: Path, model: Xcodec2Model, part: str
) -> None:
    rewrite(tmp_path, model, drop=part)
    codec = Xcodec2Codec.load(tmp_path, CPU)
    assert codec.samples(torch.zeros(1, 2, 1, dtype=torch.int64)).shape == (1, 2 * HOP)
    with pytest.raises(TalkaheadError, match="holds no whole encoder"):
        codec.encode(np.zeros(4 * HOP, np.float32))


@pytest.mark.parametrize("name", ["acoustic_decoder.norm.weight", "quantizer.project_out.bias"])
def test_a_decoder_that_lacks_a_tensor_is_refused(tmp_path: Path, model: Xcodec2Model, name: str) -> None:
    rewrite(tmp_path, model, drop=name)
    with pytest.raises(ArtifactMismatch, match=f"missing {name}"):
        load_codec(tmp_path, CPU)


@pytest.mark.parametrize("name", ["acoustic_decoder.norm.weight", "fc_encoder.bias", "fc_post_s.bias"])
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, model: Xcodec2Model, name: str) -> None:
    rewrite(tmp_path, model, drop=name, add={name: torch.zeros(3)})
    with pytest.raises(ArtifactMismatch, match=name):
        load_codec(tmp_path, CPU)


def rewrite(folder: Path, model: Xcodec2Model, drop: str, add: dict[str, torch.Tensor] | None = None) -> None:
    model.save_pretrained(folder)
    path = folder / "model.safetensors"
    state = {name: value for name, value in load_file(path).items() if not name.startswith(drop)}
    save_file({**state, **(add or {})}, path, {"format": "pt"})


def test_the_causal_variant_speaks_a_lone_frame_like_the_other(
    causal: Xcodec2Codec, codec: Xcodec2Codec
) -> None:
    """Whose side taps and attention then meet nothing."""
    lone, two = (torch.from_numpy(draw(count)[None].astype(np.int64)) for count in (1, 2))
    torch.testing.assert_close(causal.samples(lone), codec.samples(lone), rtol=0, atol=1e-6)
    assert (causal.samples(two) - codec.samples(two)).abs().max() > 1e-4


def test_the_causal_variant_hears_five_frames_ahead_and_its_norms(
    causal: Xcodec2Codec, codec: Xcodec2Codec
) -> None:
    """Three reach into the first convolution, the pieces overlap by one and a half; norms hear everything."""
    frames, other = draw(40), draw(40)
    other[20:] = draw(20, seed=1)
    whole_of = [torch.from_numpy(one[None].astype(np.int64)) for one in (frames, other)]

    def same_samples(codec: Xcodec2Codec) -> int:
        one, two = (codec.samples(whole)[0] for whole in whole_of)
        return int(torch.nonzero((one - two).abs() > 1e-5)[0])

    assert same_samples(causal) < HOP
    for each in (causal, codec):
        without_norms(each)
    assert 15 * HOP <= same_samples(causal) < 16 * HOP
    assert same_samples(codec) < HOP


def without_norms(codec: Xcodec2Codec) -> None:
    for part in list(codec._network.decoder.modules()):
        for name, norm in list(part.named_children()):
            if isinstance(norm, nn.GroupNorm):
                setattr(part, name, nn.Identity())


def test_the_causal_variant_hears_as_well(causal: Xcodec2Codec, codec: Xcodec2Codec) -> None:
    audio = np.random.default_rng(0).normal(0, 0.1, 8 * HOP).astype(np.float32)
    assert causal.encode(audio).tolist() == codec.encode(audio).tolist()
