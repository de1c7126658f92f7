"""Refines the codec against a discriminator and a classifier of phones. Resumable.

Spectral losses alone leave a buzz, which the discriminator catches, and swallow consonants, which the
classifier misses. Encoder and quantiser stay as they are, and so do the codes: a talker may learn them
meanwhile. With `--codes` they are refined as well, before a talker learns them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from talkahead.audio.codec import Codec
from talkahead.draft_training.schedule import Schedule
from talkahead.draft_training.training_state import TrainingState
from torch import Tensor, nn
from torch.nn import functional

from training.checkpoint import report
from training.discriminator import Discriminator, deception_loss, discriminator_loss, feature_distance
from training.phone_classifier import PhoneClassifier, hearing_distance
from training.train_codec import Crops, PitchedCrops, SpectralLoss, crops, held_out_loss

WEIGHTS = (
    ("spectral", 1.0, "of the codec's own loss"),
    ("deception", 0.3, "of the discriminator's verdict"),
    ("features", 1.0, "of its layers' distance"),
    ("hearing", 1.0, "of the distance between the phones that are heard"),
    ("pitch", 0.1, "of the encoder's error in pitch, where codes are refined"),
)


class Refinement:
    """Decoder (and encoder) and discriminator, trained in turn on the same crops."""

    def __init__(self, codec: Codec, options: argparse.Namespace) -> None:
        self.codec = codec.requires_grad_(False)
        self.learner: nn.Module = codec if options.codes else codec.decoder
        self.learner.requires_grad_(True)
        self.judge, self.loss_of = Discriminator(), SpectralLoss()
        self.listener = PhoneClassifier.load(options.phones)
        self.options = options
        self.optimizers = (
            torch.optim.AdamW(self.learner.parameters(), lr=options.rate, betas=(0.8, 0.99)),
            torch.optim.AdamW(self.judge.parameters(), lr=options.judge_rate, betas=(0.8, 0.99)),
        )

    def step(self, batch: Crops) -> dict[str, float]:
        """One turn of each; returns their losses."""
        audio = batch.audio
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made, scores = self.codec(audio, batch.hertz, batch.pitch)
        made = made.float()
        judged = self._learn_to_judge(audio, made.detach())
        self.judge.requires_grad_(False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            seen, real = self.judge(made), self.judge(audio)
            hearing = hearing_distance(self.listener(audio), self.listener(made))
        weights = self.options
        losses = {
            "spectral": self.loss_of(made, audio),
            "deception": deception_loss(seen),
            "features": feature_distance(real, seen),
            "hearing": hearing,
            "pitch": functional.cross_entropy(scores.float().flatten(0, 1), batch.pitch.flatten()),
        }
        total = sum(
            (getattr(weights, f"{name}_weight") * loss for name, loss in losses.items()), made.new_zeros(())
        )
        self._descend(total, self.optimizers[0], self.learner)
        self.judge.requires_grad_(True)
        losses["judge"] = judged
        return {name: loss.item() for name, loss in losses.items()}

    def _learn_to_judge(self, audio: Tensor, made: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = discriminator_loss(self.judge(audio), self.judge(made))
        self._descend(loss, self.optimizers[1], self.judge)
        return loss.detach()

    @staticmethod
    def _descend(loss: Tensor, optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()


def refine(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    refinement = Refinement(Codec.load(options.codec), options)
    both = nn.ModuleDict({"codec": refinement.codec, "judge": refinement.judge})
    checkpoint = TrainingState(options.out / "refined.pt", both, *refinement.optimizers)
    first = checkpoint.resume()
    schedules = [
        Schedule(peak, options.steps, warm_up=50, decay=0.5) for peak in (options.rate, options.judge_rate)
    ]
    config = refinement.codec.config
    source = PitchedCrops(options.corpus, config, options.batch, options.seed + first, options.crop)
    batches = source.read_ahead()
    began = time.monotonic()
    for step in range(first, options.steps):
        for schedule, optimizer in zip(schedules, refinement.optimizers, strict=True):
            schedule.apply(optimizer, step)
        losses = refinement.step(next(batches))
        if (step + 1) % 25 == 0:
            shown = ", ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
            pace = (time.monotonic() - began) / (step + 1 - first)
            print(f"refine: step {step + 1}/{options.steps}, {shown}, {pace:.2f} s a step", flush=True)
        if (step + 1) % 100 == 0:
            checkpoint.save(step + 1)
            refinement.codec.save(options.out / "refined")
    checkpoint.save(options.steps)
    refinement.codec.save(options.out / "refined")
    held_out = next(crops(options.corpus, 32, 1, held_out=True))
    loss = held_out_loss(refinement.codec, refinement.loss_of, held_out)
    report(options.out / "refined.report.json", options.steps, {"held_out_spectral_loss": round(loss, 4)})


def main() -> None:
    parser = argparse.ArgumentParser(prog="training.refine_codec", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("build/corpus"))
    parser.add_argument("--codec", type=Path, default=Path("build/training/codec"))
    parser.add_argument("--out", type=Path, default=Path("build/training"), help="checkpoint and result")
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--batch", type=int, default=12, help="crops in a step")
    parser.add_argument("--crop", type=int, default=16_000, help="samples of a crop")
    parser.add_argument("--rate", type=float, default=4e-4, help="peak learning rate of the decoder")
    parser.add_argument("--judge-rate", type=float, default=1e-3, help="and of the discriminator")
    parser.add_argument("--phones", type=Path, default=Path("build/training/phones.safetensors"))
    parser.add_argument("--codes", action="store_true", help="refine the encoder too, and with it the codes")
    for name, weight, of in WEIGHTS:
        parser.add_argument(f"--{name}-weight", type=float, default=weight, help=of)
    parser.add_argument("--seed", type=int, default=2)
    refine(parser.parse_args())


if __name__ == "__main__":
    main()
