"""Trains text encoder and talker together on the codec's frames. Resumable; steered by the held-out loss.

Two things make little data go far: history is corrupted (the talker learns to recover from its own slips),
and one attention head is shown which symbol the teacher is speaking (guided attention, after Tachibana et al.
2018, with the teacher's own alignment in place of a diagonal). Neither changes the network that is served,
where that head tells when words begin and goes through the text without a leap.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.draft_training.draft_losses import Teaching, weighted
from talkahead.draft_training.fast_products import fast_products
from talkahead.draft_training.kept_memory import keep_freed_memory
from talkahead.draft_training.lesson import IGNORE, Lesson, drawing
from talkahead.draft_training.optimizers import optimizers_of
from talkahead.draft_training.schedule import Schedule
from talkahead.draft_training.training_state import TrainingState
from talkahead.drafting.draft_artifact import Draft, target_hash
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.families.phonemic.spectral_decoder import CONFIG_FILE, SpectralConfig
from talkahead.families.phonemic.text_encoder import TextEncoder, TextEncoderConfig
from talkahead.generation_config import AlignmentHead, AlignmentWindow
from talkahead.text.symbols import NUM_SYMBOLS
from talkahead.weights import load_float32
from torch import Tensor, nn
from torch.nn import functional

from instruments.dataset import STEP, Batch, Dataset
from training.checkpoint import go_on_from, report, told_plainly
from training.compiled_layers import compile_layers
from training.growth import nearest_codes, recoded, with_key_value_heads
from training.running_weights import running_mean
from training.shared_codes import CodeFactors, plain, share

ALIGNMENT_HEAD = AlignmentHead(2, 0, AlignmentWindow(back=0, ahead=1, longest=25, closing=2))
"""It is shown which symbol is being spoken. A frame speaks the one that the frame before speaks, or the next;
of 1.4 million symbols none lasts for over 25 frames, and the pause that closes a prompt has a frame or two
in 1 % of the utterances, else none: hence its window."""
_JUDGED = 12
"""Held-out batches at most: of few, short utterances would count too much."""
_KEPT_EVERY = 100
"""Steps, of which a training that is stopped loses fewer."""
_DRAFT_PLACES = 1_024
"""That draft heads learn from in a step."""
_TABLES = ("embed_tokens", "lm_head", "linears", "symbols", "prosody", "voices")


@dataclass(frozen=True)
class Losses:
    """Nats per frame (end of speech included), of the guided head's attention on the spoken symbol, and of
    each draft head [K]."""

    frames: Tensor
    attention: Tensor
    drafts: Tensor


class Voice(nn.Module):
    """Text encoder and talker as one trainable module."""

    def __init__(self, encoder: TextEncoderConfig, talker: DecoderConfig, dropout: float) -> None:
        super().__init__()
        self.encoder = TextEncoder(encoder)
        self.talker = Llama(talker, dropout)
        self.heads: DraftHeads | None = None
        self._teaching = Teaching(self.talker, _DRAFT_PLACES)

    def add_heads(self, count: int) -> None:
        """Lets draft heads learn with the talker from now on; they begin by guessing as it does."""
        head, embeddings = self.talker.lm_head.weight, self.talker.model.embed_tokens.weight
        self.heads = DraftHeads.beginning_as(head.detach(), count, embeddings.detach())

    def forward(self, batch: Batch, corruption: float = 0.0) -> Losses:
        eos = self.talker.config.eos
        prompts = self.encoder(batch.symbols, batch.num_symbols, batch.voices)
        prompt_lengths = batch.num_symbols + 1
        history = self._corrupt(batch.frames, corruption)
        rows, place = self._join(
            prompts, prompt_lengths, self.talker.model.embed_tokens(history), batch.num_frames
        )
        output = self.talker(rows, watched=(ALIGNMENT_HEAD.layer, ALIGNMENT_HEAD.head))
        # Position p predicts frame p - prompt_length + 1; the position of the last frame predicts the end.
        frame = place - prompt_lengths[:, None] + 1
        tokens = batch.tokens(eos)
        states = drawing(output.hidden, batch.num_symbols, tokens.shape[1])
        asked = tokens != IGNORE
        frames = functional.cross_entropy(self.talker.lm_head(states[asked]).float(), tokens[asked])
        assert output.watched is not None
        drafts = self._draft_losses(Lesson(rows, batch.num_symbols, states, tokens))
        return Losses(frames, self._attention_loss(output.watched, batch, frame), drafts)

    def _draft_losses(self, lesson: Lesson) -> Tensor:
        if self.heads is None:
            return lesson.hidden.new_zeros(0)
        return self._teaching.losses(self.heads, lesson)

    def _corrupt(self, frames: Tensor, rate: float) -> Tensor:
        if not rate:
            return frames
        noise = torch.randint(self.talker.config.eos, frames.shape)
        return torch.where(torch.rand(frames.shape) < rate, noise, frames)

    @staticmethod
    def _join(
        prompts: Tensor, prompt_lengths: Tensor, embedded: Tensor, num_frames: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Puts each row's frames [B, F, D] after its own prompt; returns rows and positions [B, L]."""
        length = int((prompt_lengths + num_frames).max())
        length += -length % STEP
        place = torch.arange(length).expand(len(prompts), length)
        after = place - prompt_lengths[:, None]
        source = torch.where(after < 0, place, prompts.shape[1] + after.clamp(max=embedded.shape[1] - 1))
        both = torch.cat([prompts.to(embedded.dtype), embedded], dim=1)
        return both.gather(1, source[..., None].expand(-1, -1, both.shape[2])), place

    @staticmethod
    def _attention_loss(scores: Tensor, batch: Batch, frame: Tensor) -> Tensor:
        """Mean negative log of the watched head's weight on the symbol of the frame being predicted."""
        weights = scores.float().log_softmax(-1)
        spoken = batch.spoken.gather(1, frame.clamp(0, batch.spoken.shape[1] - 1))
        picked = weights.gather(2, spoken[..., None])[..., 0]
        inside = (frame >= 0) & (frame < batch.num_frames[:, None])
        return -picked[inside].mean()


@torch.no_grad()
def held_out_loss(voice: Voice, dataset: Dataset, tokens: int, max_batches: int) -> Losses:
    """Mean losses over the frames of a split's first batches, without dropout or corruption."""
    voice.eval()
    parts, weights = [], []
    for batch, _ in zip(dataset.batches(tokens, seed=0), range(max_batches), strict=False):
        with fast_products():
            parts.append(tuple(vars(voice(batch)).values()))
        weights.append(batch.num_frames.sum())
    voice.train()
    share = torch.stack(weights) / sum(weights)
    return Losses(
        *(torch.einsum("b...,b->...", torch.stack(part), share) for part in zip(*parts, strict=True))
    )


def train(options: argparse.Namespace) -> None:
    keep_freed_memory()
    torch.manual_seed(options.seed)
    learn, held_out = Dataset(options.dataset, "train"), Dataset(options.dataset, "development")
    schedule = Schedule(options.rate, options.steps, options.warm_up, options.cooldown)
    # One pass is meant: by the third, texts are known by heart, and new ones are spoken worse than before.
    passes = options.steps * options.tokens / learn.num_tokens
    print(
        f"talker: {len(learn)} utterances, {learn.num_tokens / 1e6:.1f} million positions; "
        f"{options.steps} steps pass {passes:.1f} times over them",
        flush=True,
    )
    factors = CodeFactors.of(options.codec)
    size = factors.num_codes
    heads = options.width // options.head_dim
    voice = Voice(
        TextEncoderConfig(
            learn.voice_names, NUM_SYMBOLS, width=options.width, heads=heads, dropout=options.dropout
        ),
        DecoderConfig(
            vocab_size=size + 1,
            eos_token_id=size,
            hidden_size=options.width,
            intermediate_size=options.intermediate,
            num_hidden_layers=options.layers,
            num_attention_heads=heads,
            num_key_value_heads=options.kv_heads,
            head_dim=options.head_dim,
            max_position_embeddings=options.positions,
        ),
        options.dropout,
    )
    if options.start:
        _begin_as(voice, options)
    if options.heads:
        voice.add_heads(options.heads)
    share(voice.talker, factors)
    mean = running_mean(voice, options.averaging)
    kept = mean.module
    assert isinstance(kept, Voice)
    compile_layers(voice.talker)
    optimizers = optimizers_of(voice, _TABLES, options.decay)
    checkpoint = TrainingState(options.out / "talker.pt", nn.ModuleList([voice, mean]), *optimizers)
    first = step = checkpoint.resume()
    began, smooth, epoch = time.monotonic(), 0.0, first
    while step < options.steps:
        for batch in learn.batches(options.tokens, options.seed + epoch, options.prompted, options.positions):
            for optimizer in optimizers:
                schedule.apply(optimizer, step)
                optimizer.zero_grad(set_to_none=True)
            with fast_products():
                losses = voice(batch, options.corruption)
            total = losses.frames + options.guidance * losses.attention
            torch.autograd.backward(total + options.drafting * weighted(losses.drafts))
            nn.utils.clip_grad_norm_(voice.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
            mean.update_parameters(voice)
            step += 1
            smooth = losses.frames.item() if not smooth else 0.98 * smooth + 0.02 * losses.frames.item()
            if step % 25 == 0:
                pace = (time.monotonic() - began) / (step - first)
                print(
                    f"talker: step {step}/{options.steps}, {smooth:.3f} nats a frame, attention "
                    f"{losses.attention.item():.3f}, {pace:.2f} s a step",
                    flush=True,
                )
            if step % _KEPT_EVERY == 0:
                checkpoint.save(step)
                keep(kept, held_out, step, options)
            if step == options.steps:
                break
        epoch += 1
    checkpoint.save(step)
    keep(kept, held_out, step, options)


def _begin_as(voice: Voice, options: argparse.Namespace) -> None:
    """As an earlier voice, whose codes and heads of keys and values may be others."""
    start, config = options.start, voice.talker.config
    go_on_from(voice.encoder, load_float32(_version(start / "encoder") / "encoder.safetensors"))
    found = with_key_value_heads(
        load_float32(_version(start / "talker") / "model.safetensors"),
        config.num_key_value_heads,
        config.head_dim,
    )
    earlier = _version(options.start_codec or start / "vocoder") / CONFIG_FILE
    if earlier.exists():
        own = SpectralConfig.from_file(options.codec / CONFIG_FILE)
        found = recoded(found, nearest_codes(own, SpectralConfig.from_file(earlier)))
    go_on_from(voice.talker, found)


def _version(folder: Path) -> Path:
    """Of a model in a repository its first version; elsewhere the folder itself."""
    return folder / "1" if (folder / "1").exists() else folder


def keep(voice: Voice, held_out: Dataset, step: int, options: argparse.Namespace) -> None:
    """Writes both networks as the server loads them, and what they reached."""
    score = held_out_loss(voice, held_out, options.tokens, max_batches=_JUDGED)
    drafts = " ".join(f"{nats:.3f}" for nats in score.drafts.tolist()) or "none"
    print(
        f"talker: step {step}, held-out {score.frames:.3f} nats, attention {score.attention:.3f}, "
        f"draft heads {drafts}",
        flush=True,
    )
    voice.encoder.save(options.out / "encoder")
    plain(voice.talker).save(options.out / "talker")
    if voice.heads is not None:
        Draft("heads", voice.heads, target_hash(options.out / "talker")).save(options.out / "heads")
    metrics = {"held_out_nats_per_frame": round(score.frames.item(), 4)}
    for ahead, nats in enumerate(score.drafts.tolist(), 1):
        metrics[f"held_out_nats_of_head_{ahead}"] = round(nats, 4)
    report(options.out / "talker.report.json", step, metrics)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="training.train_talker", description=__doc__)
    parser.add_argument("--dataset", type=Path, default=Path("build/training/dataset.npz"))
    parser.add_argument("--codec", type=Path, default=Path("build/training/codec"))
    parser.add_argument("--out", type=Path, default=Path("build/training"), help="checkpoint and results")
    parser.add_argument(
        "--start",
        type=Path,
        help="folder of a voice's encoder and talker, or repository, to go on from; its shape may differ",
    )
    parser.add_argument(
        "--start-codec", type=Path, help="that voice's codec, if its codes are others (the repository's)"
    )
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--tokens", type=int, default=6_000, help="padded positions in a step")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--intermediate", type=int, default=864)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument(
        "--kv-heads", type=int, default=1, help="of keys and values, which steps of many streams read"
    )
    parser.add_argument("--positions", type=int, default=1_536, help="the longest prompt and speech together")
    parser.add_argument(
        "--prompted", type=float, default=0.0, help="share of utterances that prompt another, or follow one"
    )
    parser.add_argument("--warm-up", type=int, default=100, help="steps until the peak learning rate")
    parser.add_argument(
        "--cooldown", type=float, default=0.35, help="share of the steps that bring it down again"
    )
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument(
        "--averaging",
        type=float,
        default=0.995,
        help="what the running mean of the weights, which is kept, remembers of itself at a step",
    )
    parser.add_argument("--decay", type=float, default=0.05, help="weight decay of the hidden matrices")
    parser.add_argument(
        "--dropout", type=float, default=0.0, help="little is gained where no text is heard twice"
    )
    parser.add_argument(
        "--corruption", type=float, default=0.06, help="share of history frames replaced by noise"
    )
    parser.add_argument("--heads", type=int, default=0, help="draft heads that learn with the talker")
    parser.add_argument("--drafting", type=float, default=0.2, help="weight of the draft heads' losses")
    parser.add_argument("--guidance", type=float, default=0.3, help="weight of the guided attention")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with told_plainly():
        train(options)


if __name__ == "__main__":
    main()
