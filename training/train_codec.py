"""Trains the codec on crops of the corpus with spectral losses at several resolutions. Resumable."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from talkahead.audio.codec import Codec, CodecConfig
from talkahead.audio.mel import LogMel
from talkahead.draft_training.schedule import Schedule
from talkahead.draft_training.training_state import TrainingState
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset

from instruments.pitch_track import fundamentals_hz
from training.checkpoint import go_on_from, report

CROP = 32_000
_SILENCE = 1e-4
_HIGHEST_HZ = 300.0
"""Where the pitch of the teacher's voices is looked for."""


class SpectralLoss(nn.Module):
    """L1 of linear and log spectra at several resolutions, and of log-mels. Audio [B, N] twice -> []."""

    def __init__(self, sizes: tuple[int, ...] = (256, 512, 1024, 2048)) -> None:
        super().__init__()
        self.sizes = sizes
        self.mels = nn.ModuleList(
            LogMel(num_fft=size, hop=size // 4, num_mels=mels) for size, mels in ((512, 40), (1024, 80))
        )

    def forward(self, restored: Tensor, audio: Tensor) -> Tensor:
        total = audio.new_zeros(())
        for size in self.sizes:
            window = torch.hann_window(size)
            both = torch.cat([restored, audio])
            spectra = torch.stft(both, size, size // 4, window=window, return_complex=True)
            power = torch.view_as_real(spectra).square().sum(-1)
            ours, theirs = torch.sqrt(power + _SILENCE**2).chunk(2)
            norm = theirs.mean() + _SILENCE
            total = (
                total + functional.l1_loss(ours, theirs) / norm + functional.l1_loss(ours.log(), theirs.log())
            )
        for mel in self.mels:
            total = total + 2.0 * functional.l1_loss(mel(restored), mel(audio))
        return total / (len(self.sizes) + len(self.mels))


def crops(folder: Path, batch: int, seed: int, *, held_out: bool, size: int = CROP) -> Iterator[Tensor]:
    """Random crops of the shards' audio as float32 [batch, size]; the last shard is held out."""
    shards = [np.memmap(path, dtype=np.int16, mode="r") for path in sorted(folder.rglob("*.i16"))]
    shards = shards[-1:] if held_out else shards[:-1]
    draw = np.random.default_rng(seed)
    while True:
        picks = [shards[index] for index in draw.integers(len(shards), size=batch)]
        starts = [int(draw.integers(len(shard) - size)) for shard in picks]
        rows = [shard[start : start + size] for shard, start in zip(picks, starts, strict=True)]
        yield torch.from_numpy(np.stack(rows).astype(np.float32) / 32768.0)


@dataclass(frozen=True)
class Crops:
    """Audio float32 [B, N] and its pitch at the frames' centres [B, N / hop], in Hz and as a level."""

    audio: Tensor
    hertz: Tensor
    pitch: Tensor


class PitchedCrops(IterableDataset[Crops]):
    """Endless random crops with their pitch."""

    def __init__(self, folder: Path, config: CodecConfig, batch: int, seed: int, size: int = CROP) -> None:
        self._folder, self._config, self._batch, self._seed = folder, config, batch, seed
        self._size = size

    def read_ahead(self) -> Iterator[Crops]:
        """The crops, made in a process of their own: tracking the pitch takes a while."""
        return iter(DataLoader(self, batch_size=None, num_workers=1, prefetch_factor=4))

    def __iter__(self) -> Iterator[Crops]:
        for audio in crops(self._folder, self._batch, self._seed, held_out=False, size=self._size):
            hertz = np.stack([self._pitch(row) for row in audio.double().numpy()])
            levels = self._config.pitch_scale.levels(hertz)
            yield Crops(audio, torch.from_numpy(hertz).float(), torch.from_numpy(levels))

    def _pitch(self, samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        config = self._config
        subframe_s = config.subhop / config.sample_rate_hz
        contour = fundamentals_hz(samples, config.sample_rate_hz, subframe_s, _HIGHEST_HZ)
        return contour[1 :: config.subframes][: len(samples) // config.hop]


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    codec, loss_of = Codec(CodecConfig(levels=tuple(options.levels))), SpectralLoss()
    if options.start:
        go_on_from(codec, options.start / "codec.safetensors")
    optimizer = torch.optim.AdamW(codec.parameters(), lr=options.rate, betas=(0.8, 0.98), weight_decay=1e-3)
    checkpoint = TrainingState(options.out / "codec.pt", codec, optimizer)
    first = checkpoint.resume()
    source = PitchedCrops(options.corpus, codec.config, options.batch, options.seed + first)
    batches = source.read_ahead()
    held_out = next(crops(options.corpus, 32, 1, held_out=True))
    schedule = Schedule(options.rate, options.steps, warm_up=100, decay=0.8)
    began, smooth = time.monotonic(), 0.0
    for step in range(first, options.steps):
        schedule.apply(optimizer, step)
        batch = next(batches)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            restored, scores = codec(batch.audio, batch.hertz, batch.pitch)
        loss = loss_of(restored.float(), batch.audio)
        told = functional.cross_entropy(scores.float().flatten(0, 1), batch.pitch.flatten())
        optimizer.zero_grad(set_to_none=True)
        (loss + options.pitch * told).backward()
        nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        optimizer.step()
        smooth = loss.item() if not smooth else 0.98 * smooth + 0.02 * loss.item()
        if (step + 1) % 50 == 0:
            pace = (time.monotonic() - began) / (step + 1 - first)
            print(
                f"codec: step {step + 1}/{options.steps}, loss {smooth:.4f}, pitch {told.item():.3f} nats, "
                f"{pace:.2f} s a step",
                flush=True,
            )
        if (step + 1) % 250 == 0:
            checkpoint.save(step + 1)
            print(
                f"codec: step {step + 1}, held-out loss {held_out_loss(codec, loss_of, held_out):.4f}",
                flush=True,
            )
            codec.save(options.out / "codec")
    checkpoint.save(options.steps)
    codec.save(options.out / "codec")
    metrics = {"held_out_spectral_loss": round(held_out_loss(codec, loss_of, held_out), 4)}
    report(options.out / "codec.report.json", options.steps, metrics)


@torch.no_grad()
def held_out_loss(codec: Codec, loss_of: SpectralLoss, audio: Tensor) -> float:
    """Loss of what the codec makes of its own codes."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        restored = codec.copy(audio)
    return float(loss_of(restored.float(), audio))


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.train_codec", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("build/corpus"))
    parser.add_argument("--out", type=Path, default=Path("build/training"), help="checkpoint and result")
    parser.add_argument("--start", type=Path, help="folder of a codec to go on from, its shape may differ")
    parser.add_argument(
        "--levels", type=int, nargs="+", default=CodecConfig.levels, help="of the quantiser, by dimension"
    )
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--batch", type=int, default=16, help="crops of two seconds in a step")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="peak learning rate")
    parser.add_argument("--pitch", type=float, default=0.1, help="weight of the encoder's error in pitch")
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
