"""The training loss is that of plain next-frame prediction after the prompt."""

from __future__ import annotations

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.families.phonemic.text_encoder import TextEncoderConfig
from torch.nn import functional

from instruments.dataset import Batch
from training.train_talker import ALIGNMENT_HEAD, Voice

EOS = 30


def small_voice() -> Voice:
    torch.manual_seed(0)
    encoder = TextEncoderConfig(voices=("a", "b"), num_symbols=20, width=32, blocks=1, dropout=0.0)
    talker = DecoderConfig(EOS + 1, EOS, 32, 48, ALIGNMENT_HEAD.layer + 1, 2, 2, 16)
    return Voice(encoder, talker, dropout=0.0).double()


def batch() -> Batch:
    torch.manual_seed(1)
    num_symbols, num_frames = torch.tensor([4, 6, 1]), torch.tensor([9, 3, 5])
    return Batch(
        torch.randint(0, 8, (3, 6, 4)),
        num_symbols,
        torch.tensor([0, 1, 1]),
        torch.randint(0, EOS, (3, 9)),
        num_frames,
        torch.randint(0, 6, (3, 9)) % num_symbols[:, None],
    )


def test_losses_equal_those_of_each_row_alone() -> None:
    voice, rows = small_voice(), batch()
    nats, guided, count, frames = 0.0, 0.0, 0, 0
    for row in range(3):
        symbols, length = int(rows.num_symbols[row]), int(rows.num_frames[row])
        prompt = voice.encoder(
            rows.symbols[row : row + 1, :symbols], rows.num_symbols[row : row + 1], rows.voices[row : row + 1]
        )
        spoken = rows.frames[row : row + 1, :length]
        output = voice.talker(
            torch.cat([prompt, voice.talker.model.embed_tokens(spoken)], dim=1),
            watched=(ALIGNMENT_HEAD.layer, ALIGNMENT_HEAD.head),
        )
        logits = voice.talker.lm_head(output.hidden[0, symbols:])
        targets = torch.cat([spoken[0], torch.tensor([EOS])])
        nats += functional.cross_entropy(logits.float(), targets, reduction="sum").item()
        weights = output.watched[0, symbols : symbols + length].softmax(-1)
        guided -= weights[torch.arange(length), rows.spoken[row, :length]].log().sum().item()
        count, frames = count + length + 1, frames + length
    losses = voice(rows)
    torch.testing.assert_close(losses.frames.item(), nats / count, rtol=1e-5, atol=0)
    torch.testing.assert_close(losses.attention.item(), guided / frames, rtol=1e-5, atol=0)


def test_corruption_changes_the_history_only() -> None:
    voice, rows = small_voice(), batch()
    assert voice(rows, corruption=0.0).frames == voice(rows, corruption=0.0).frames
    before = rows.frames.clone()
    assert voice(rows, corruption=0.5).frames != voice(rows).frames
    assert torch.equal(rows.frames, before)


def test_draft_heads_begin_by_guessing_as_the_talker_does_and_teach_it() -> None:
    voice, rows = small_voice(), batch()
    assert len(voice(rows).drafts) == 0
    voice.add_heads(2)
    voice.double()
    nats, count = 0.0, 0
    for row in range(3):
        symbols, length = int(rows.num_symbols[row]), int(rows.num_frames[row])
        prompt = voice.encoder(
            rows.symbols[row : row + 1, :symbols], rows.num_symbols[row : row + 1], rows.voices[row : row + 1]
        )
        embedded = voice.talker.model.embed_tokens(rows.frames[row : row + 1, :length])
        hidden = voice.talker(torch.cat([prompt, embedded], dim=1)).hidden[0, symbols:-1]
        following = torch.cat([rows.frames[row, 1:length], torch.tensor([EOS])])
        nats += functional.cross_entropy(voice.talker.lm_head(hidden), following, reduction="sum").item()
        count += length
    drafts = voice(rows).drafts
    torch.testing.assert_close(drafts[0].item(), nats / count, rtol=1e-5, atol=0)
    torch.autograd.backward(drafts.sum())
    taught = voice.talker.model.layers[0].get_submodule("mlp.up_proj").get_parameter("weight").grad
    assert taught is not None and taught.abs().max() > 0
