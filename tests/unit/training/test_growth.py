"""What a network of another shape keeps of the one that it goes on from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.families.phonemic.spectral_decoder import SpectralConfig
from torch import Tensor

from training.growth import grown_codec, nearest_codes, recoded, with_key_value_heads
from training.spectral_autoencoder import PROSODY_FEATURES, SOUND_FEATURES, SpectralAutoencoder

SMALL = SpectralConfig(sound_levels=(8, 6, 4), width=16, inner=16, blocks=1, lookahead=2)
FINER = replace(SMALL, sound_levels=(8, 8, 6), lookahead=4)


def talker(kv_heads: int) -> Llama:
    torch.manual_seed(3)
    return Llama(DecoderConfig(31, 30, 32, 48, 2, 2, kv_heads, 16))


def grown(codec: SpectralAutoencoder, like: SpectralConfig) -> SpectralAutoencoder:
    return grown_codec(codec, like.sound_levels, like.prosody_levels, like.lookahead)


def test_a_codec_that_looks_further_ahead_says_the_same_at_first() -> None:
    torch.manual_seed(0)
    codec = SpectralAutoencoder(SMALL)
    further = grown(codec, replace(SMALL, lookahead=4))
    told, valid = (torch.randn(2, 9, SOUND_FEATURES), torch.randn(2, 9, PROSODY_FEATURES)), torch.ones(2, 9)
    said = (each(each.encoder(*told), valid) for each in (codec, further))
    for one, other in zip(*said, strict=True):
        torch.testing.assert_close(one, other)
    assert further.decoder.config.lookahead_frames == 5


def test_finer_levels_round_less() -> None:
    torch.manual_seed(0)
    codec = SpectralAutoencoder(SMALL)
    finer = grown(codec, FINER)
    latents = codec.encoder(torch.randn(1, 200, SOUND_FEATURES), torch.randn(1, 200, PROSODY_FEATURES))

    def lost(one: SpectralAutoencoder) -> Tensor:
        quantizer = one.decoder.quantizer
        return (quantizer(latents) - (2 * torch.sigmoid(latents) - 1)).abs().mean()

    assert lost(finer) < 0.9 * lost(codec)


def test_a_codec_of_other_dimensions_is_refused() -> None:
    codec = SpectralAutoencoder(SMALL)
    with pytest.raises(ValueError, match="5 dimensions that looks 2 frames ahead cannot become one of 6"):
        grown_codec(codec, (8, 6, 4, 2), SMALL.prosody_levels, 2)
    with pytest.raises(ValueError, match="looks 1 ahead"):
        grown_codec(codec, SMALL.sound_levels, SMALL.prosody_levels, 1)


def test_codes_of_the_same_levels_are_themselves() -> None:
    assert torch.equal(nearest_codes(SMALL, SMALL), torch.arange(SMALL.num_codes))


def test_finer_codes_begin_as_what_is_nearest() -> None:
    nearest = nearest_codes(FINER, SMALL)
    assert len(nearest) == FINER.num_codes and set(nearest.tolist()) == set(range(SMALL.num_codes))
    ours, theirs = (SpectralAutoencoder(one).decoder.quantizer for one in (FINER, SMALL))
    apart = (ours.decode(torch.arange(FINER.num_codes)) - theirs.decode(nearest)).abs()
    steps = 2 / (torch.tensor(SMALL.levels) - 1)
    assert (apart <= steps / 2 + 1e-6).all()


def test_a_talker_says_of_finer_codes_what_it_said_of_the_nearest() -> None:
    state = talker(2).state_dict()
    nearest = torch.tensor([3, 3, 0, 29])
    found = recoded(state, nearest)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(found[name], state[name][[3, 3, 0, 29, 30]])
    assert found["model.norm.weight"] is state["model.norm.weight"]


def test_heads_of_keys_and_values_become_the_means_of_their_neighbours() -> None:
    state = talker(2).state_dict()
    one = with_key_value_heads(state, 1, 16)
    talker(1).load_state_dict(one)
    name = "model.layers.1.self_attn.v_proj.weight"
    torch.testing.assert_close(one[name], (state[name][:16] + state[name][16:]) / 2)
    same = with_key_value_heads(state, 2, 16)
    assert all(torch.equal(same[name], state[name]) for name in state)
