"""Trains the spectral codec on the neural teacher's segments. Resumable; steered by the held-out loss.

The decoder learns the hidden values after which the teacher's last layer stands, through that layer: what
counts is the spectra that come of them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.kept_memory import keep_freed_memory
from talkahead.draft_training.optimizers import optimizers_of
from talkahead.draft_training.schedule import Schedule
from talkahead.draft_training.training_state import TrainingState
from talkahead.errors import TalkaheadError
from talkahead.families.phonemic.spectral_decoder import (
    SUBFRAMES,
    Pitch,
    Spectra,
    SpectralConfig,
    height_of,
)
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from instruments.neural_teacher import NeuralTeacher
from training.band_importance import band_importance
from training.checkpoint import report, told_plainly
from training.growth import grown_codec
from training.spectral_autoencoder import PROSODY_FEATURES, FrameEncoder, SpectralAutoencoder
from training.spectral_corpus import Floats, Row, rows

_VOICED_HZ = 40.0
"""Below, the teacher's renderer makes no pulses."""
_COMPRESSION = 0.3
"""Magnitudes are compared to this power, about as loud as they are heard."""
_SYMBOL_BATCHES, _SYMBOL_FRAMES, _SYMBOL_RATE = 60, 2_000, 5e-3
"""Of which sounds learn to tell symbols apart, frames in a step of that, and its learning rate."""
_FARTHEST = 4.0
"""Of latents, while sounds learn to tell symbols apart: there they are at their last level."""
_STEP = 16
"""Lengths are padded to multiples of this many frames: the matrix library prepares itself for each."""


@dataclass(frozen=True)
class Batch:
    """Padded rows: sounds [B, T, 128], prosody [B, T, 4], hidden [B, S, 256], hertz [B, S], symbols
    int64 [B, T], valid [B, T]."""

    sounds: Tensor
    prosody: Tensor
    hidden: Tensor
    hertz: Tensor
    symbols: Tensor
    valid: Tensor

    @classmethod
    def of(cls, chosen: list[Row]) -> Batch:
        longest = max(len(row.phones) for row in chosen)
        frames = longest + -longest % _STEP

        def padded(values: list[Floats], length: int) -> Tensor:
            stacked = pad_sequence([torch.from_numpy(value) for value in values], batch_first=True)
            room = (0, 0) * (stacked.ndim - 2) + (0, length - stacked.shape[1])
            return functional.pad(stacked, room)

        prosody = padded([row.prosody for row in chosen], SUBFRAMES * frames)
        lengths = torch.tensor([len(row.phones) for row in chosen])
        return cls(
            padded([row.phones for row in chosen], frames),
            prosody.reshape(len(chosen), frames, PROSODY_FEATURES),
            padded([row.hidden for row in chosen], SUBFRAMES * frames),
            padded([row.hertz for row in chosen], SUBFRAMES * frames),
            padded([row.symbols for row in chosen], frames).long(),
            torch.arange(frames) < lengths[:, None],
        )


@dataclass(frozen=True)
class Losses:
    """Each a mean over subframes: of compressed magnitudes, of the rest's phase, of hidden values, of the
    pitch's logarithm where voiced, and of whether it is; and of reading a frame's symbol from its sound
    alone, in nats, without which codes take sounds for one that the ear tells apart."""

    magnitudes: Tensor
    phase: Tensor
    hidden: Tensor
    height: Tensor
    voicing: Tensor
    symbol: Tensor

    @property
    def total(self) -> Tensor:
        heard = self.magnitudes + self.phase + 0.1 * self.hidden + 3 * self.height + 0.2 * self.voicing
        return heard + 0.1 * self.symbol

    def __str__(self) -> str:
        return ", ".join(f"{name} {value.item():.4f}" for name, value in vars(self).items())


def losses(codec: SpectralAutoencoder, batch: Batch) -> Losses:
    with fast_products():
        latents = codec.encoder(batch.sounds, batch.prosody)
        hidden, pitch = codec(latents, batch.valid.float())
        read = codec.read(latents)
    valid = batch.valid.repeat_interleave(SUBFRAMES, dim=1)
    made, meant = hidden.float()[valid], batch.hidden[valid]
    hertz, pitch = batch.hertz[valid], Pitch(*(part.float()[valid] for part in pitch))
    voiced = hertz > _VOICED_HZ
    magnitudes, phase = _spectral(codec, made, meant, voiced)
    return Losses(
        magnitudes,
        phase,
        functional.l1_loss(made, meant),
        functional.l1_loss(pitch.height[voiced], height_of(hertz[voiced])),
        functional.binary_cross_entropy_with_logits(pitch.voicing, voiced.float()),
        functional.cross_entropy(read.float()[batch.valid], batch.symbols[batch.valid]),
    )


def _spectral(
    codec: SpectralAutoencoder, made: Tensor, meant: Tensor, voiced: Tensor
) -> tuple[Tensor, Tensor]:
    """Of hidden values [N, 256]; the voice's filter counts where there is a voice to filter."""
    with fast_products():
        ours = Spectra(*(part.float() for part in codec.decoder.spectra_of(made)))
        with torch.no_grad():
            theirs = Spectra(*(part.float() for part in codec.decoder.spectra_of(meant)))
    counts = band_importance(codec.decoder.config)
    loud = _compressed(theirs.rest)
    magnitudes = (
        ((_compressed(ours.voice) - _compressed(theirs.voice)).abs() * voiced[:, None] * counts).mean()
        + ((_compressed(ours.breath) - _compressed(theirs.breath)).abs() * counts).mean()
        + ((_compressed(ours.rest) - loud).abs() * counts).mean()
    )
    phase = ((1 - torch.cos(ours.phase - theirs.phase)) * loud * counts).mean()
    return magnitudes, phase


def _compressed(log_magnitudes: Tensor) -> Tensor:
    return torch.exp(_COMPRESSION * log_magnitudes.clamp(max=7.0))


class Corpus:
    """Shards in random order, in batches of similar lengths and about `frames` padded frames."""

    def __init__(self, folder: Path, frames: int) -> None:
        self._shards, self._frames = sorted(folder.glob("[0-9]*.npz")), frames
        if not self._shards:
            raise TalkaheadError(f"{folder} has no shards; make them: python -m training.spectral_corpus")

    def batches(self, seed: int) -> Iterator[Batch]:
        draw = np.random.default_rng(seed)
        order = draw.permutation(len(self._shards))
        together = 4
        for first in range(0, len(order), together):
            found = [row for place in order[first : first + together] for row in rows(self._shards[place])]
            groups = list(self._groups(sorted(found, key=lambda row: len(row.phones))))
            for place in draw.permutation(len(groups)):
                yield Batch.of(groups[place])

    def _groups(self, found: list[Row]) -> Iterator[list[Row]]:
        group: list[Row] = []
        for row in found:
            if group and (len(group) + 1) * (len(row.phones) + _STEP) > self._frames:
                yield group
                group = []
            group.append(row)
        yield group


@torch.no_grad()
def held_out(codec: SpectralAutoencoder, corpus: Corpus) -> Losses:
    found = [tuple(vars(losses(codec, batch)).values()) for batch in corpus.batches(0)]
    return Losses(*(torch.stack(values).mean() for values in zip(*found, strict=True)))


def train(options: argparse.Namespace) -> None:
    keep_freed_memory()
    torch.manual_seed(options.seed)
    codec = _going_on(options) if options.start else _beginning(options)
    learn = Corpus(options.corpus / "train", options.frames)
    judge = Corpus(options.corpus / "development", options.frames)
    if options.code_steps and not (options.out / "codec.pt").exists():
        anew = [] if options.start and not options.new_sounds else [codec.encoder.sound]
        learn_symbols(codec, learn, [codec.reader, *anew], options.symbol_steps)
    schedule = Schedule(options.rate, options.steps, options.warm_up, options.cooldown)
    optimizers = optimizers_of(codec, ("inward", "outward", "encoder", "reader"), 0.01)
    state = TrainingState(options.out / "codec.pt", codec, *optimizers)
    step = first = state.resume()
    began, epoch = time.monotonic(), first
    while step < options.steps:
        for batch in learn.batches(options.seed + epoch):
            for optimizer in optimizers:
                schedule.apply(optimizer, step)
                optimizer.zero_grad(set_to_none=True)
            codec.encoder.requires_grad_(step < options.code_steps)
            found = losses(codec, batch)
            torch.autograd.backward(found.total)
            nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            step += 1
            if step % 20 == 0:
                pace = (time.monotonic() - began) / (step - first)
                print(f"codec: step {step}/{options.steps}, {found}, {pace:.2f} s a step", flush=True)
            if step % 200 == 0 or step == options.steps:
                state.save(step)
                score = held_out(codec, judge)
                print(f"codec: step {step}, held-out {score.total.item():.4f}: {score}", flush=True)
                keep(codec, score, step, options.out)
            if step == options.steps:
                break
        epoch += 1


def learn_symbols(
    codec: SpectralAutoencoder, corpus: Corpus, learning: Sequence[nn.Module], steps: int
) -> None:
    """Lets the reader, or sounds and reader, tell one symbol from another before anything else is learned.

    Spectra alone lead to sounds that name a letter only together with their neighbours: one of 384 left 3.2
    bits of its letter open. After a minute of this 0.2 are.
    """
    # Frames at random: those of one batch are of few utterances, by which nothing is learned.
    batches = list(islice(corpus.batches(0), _SYMBOL_BATCHES))
    phones = torch.cat([batch.sounds[batch.valid] for batch in batches])
    symbols = torch.cat([batch.symbols[batch.valid] for batch in batches])
    optimizer = torch.optim.AdamW(nn.ModuleList(learning).parameters(), lr=_SYMBOL_RATE, betas=(0.9, 0.98))
    for step in range(1, steps + 1):
        chosen = torch.randint(len(phones), (_SYMBOL_FRAMES,))
        latents = codec.encoder.sound(phones[chosen])
        found = functional.cross_entropy(codec.read(latents), symbols[chosen])
        # Far out the rounding's sigmoid is flat: what once got there would stay.
        beyond = functional.relu(latents.abs() - _FARTHEST).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(found + 0.1 * beyond)
        optimizer.step()
        if step % 100 == 0:
            print(f"codec: symbols, step {step}/{steps}, {found.item():.3f} nats", flush=True)


def _going_on(options: argparse.Namespace) -> SpectralAutoencoder:
    """As it was, but for what is asked to be finer."""
    codec = SpectralAutoencoder.load(options.start)
    if options.new_sounds:
        codec.encoder.sound = FrameEncoder(codec.decoder.config).sound
    earlier = codec.decoder.config
    return grown_codec(
        codec,
        tuple(options.sound_levels or earlier.sound_levels),
        tuple(options.prosody_levels or earlier.prosody_levels),
        options.lookahead or earlier.lookahead,
    )


def _beginning(options: argparse.Namespace) -> SpectralAutoencoder:
    config = SpectralConfig(
        sound_levels=tuple(options.sound_levels or SpectralConfig.sound_levels),
        prosody_levels=tuple(options.prosody_levels or SpectralConfig.prosody_levels),
        lookahead=options.lookahead or SpectralConfig.lookahead,
        width=options.width,
        inner=options.inner,
        blocks=options.blocks,
    )
    weight, bias = NeuralTeacher().spectral_head()
    return SpectralAutoencoder(config, (torch.from_numpy(weight), torch.from_numpy(bias)))


def keep(codec: SpectralAutoencoder, score: Losses, step: int, out: Path) -> None:
    """Writes the codec and what it reached."""
    codec.save(out)
    metrics = {f"held_out_{name}": round(value.item(), 4) for name, value in vars(score).items()}
    report(out / "codec.report.json", step, metrics)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="training.train_spectral_codec", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("build/spectral"))
    parser.add_argument("--out", type=Path, default=Path("build/training"), help="checkpoint and results")
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument(
        "--code-steps", type=int, default=700, help="after so many, codes stay: the decoder alone goes on"
    )
    parser.add_argument(
        "--symbol-steps",
        type=int,
        default=2_000,
        help="before the others, if codes are learned: in which symbols are read from sounds",
    )
    parser.add_argument(
        "--new-sounds", action="store_true", help="with --start: sounds are learned from nothing"
    )
    parser.add_argument(
        "--start",
        type=Path,
        help="folder of a codec to go on from; its levels and its look-ahead may be given anew",
    )
    parser.add_argument("--frames", type=int, default=3_000, help="padded frames in a step")
    parser.add_argument("--sound-levels", type=int, nargs="+")
    parser.add_argument("--prosody-levels", type=int, nargs="+")
    parser.add_argument("--lookahead", type=int, help="frames that spectra look ahead")
    parser.add_argument("--width", type=int, default=SpectralConfig.width)
    parser.add_argument("--inner", type=int, default=SpectralConfig.inner)
    parser.add_argument("--blocks", type=int, default=SpectralConfig.blocks)
    parser.add_argument("--warm-up", type=int, default=50, help="steps until the peak learning rate")
    parser.add_argument("--cooldown", type=float, default=0.4, help="share of the steps that bring it down")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    with told_plainly():
        train(options)


if __name__ == "__main__":
    main()
