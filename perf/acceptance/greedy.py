"""The likeliest tokens after one prompt, by transformers and by the decoder here, which is told them.

Shapes: P ids of the prompt, T tokens, V tokens of speech and their end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from talkahead.backbone.checkpoint import EMBEDDINGS, WEIGHTS, Checkpoint
from talkahead.backbone.decoder_choice import load_decoder
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.families.contracts import TokenMap
from talkahead.families.importing import layout_of
from talkahead.families.registry import load_family
from talkahead.families.safetensors_file import narrowed
from talkahead.families.table_encoder import TableEncoder
from talkahead.families.text_tokens import TextTokens
from talkahead.families.token_layout import SpeechTokens
from talkahead.speculation.contracts import Accepted
from talkahead.speculation.rows import Rows
from talkahead.speculation.token_tree import ROOT_ALONE, TokenTree
from talkahead.speech_format import SpeechFormat
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from perf.acceptance.downloads import ALONE, Downloads

TEXT = "The juice of lemons makes fine punch, and it is easy to tell the depth of a well."
_EXCUSED = 2.0
"""A token may be another one where the two likeliest are nearer to each other than this many of the largest
errors: both of them may be off."""


@dataclass(frozen=True)
class Difference:
    """Where the two decoders like different tokens best.

    Args:
        position: of the token in the segment, from 0.
        gap: between transformers' two likeliest logits.
    """

    position: int
    gap: float


@dataclass(frozen=True)
class GreedyFinding:
    """How the two decoders agree.

    Args:
        dtype: in which both computed.
        tokens: that were compared, fewer than asked for where speech ended.
        ended: transformers drew the end of speech.
        logit_error: the largest of any token at any position.
        logit_spread: standard deviation of transformers' logits.
    """

    dtype: str
    prompt: int
    tokens: int
    ended: bool
    same: int
    logit_error: float
    logit_spread: float
    differences: tuple[Difference, ...]

    @property
    def is_excused(self) -> bool:
        """Whether rounding explains every difference."""
        return all(one.gap <= _EXCUSED * self.logit_error for one in self.differences)

    @property
    def sentence(self) -> str:
        said = (
            f"{self.same} of {self.tokens} greedy tokens are transformers' ({self.dtype}, largest error of a "
            f"logit {self.logit_error:.2g} of a spread of {self.logit_spread:.2g})"
        )
        if not self.differences:
            return f"{said}."
        how = "all within rounding" if self.is_excused else "NOT explained by rounding"
        return f"{said}; the others are {how}."


def compare(downloads: Downloads, repository: Path, tokens: int, device: str) -> GreedyFinding:
    """Of a talker, in the repository that it became, in that one's default voice."""
    prompt = _Prompt.of(repository, downloads.family)
    dtype = _dtype_that_fits(downloads.talker, device)
    told, theirs = _theirs(downloads, prompt, tokens, dtype, device, _is_narrow(repository))
    ours = _ours(repository, prompt, told, dtype, device)
    best = [int(logits.argmax()) for logits in ours]
    differences = []
    for position, (token, own, logits) in enumerate(zip(told, best, theirs, strict=True)):
        if token != own:
            first, second = logits.topk(2).values.tolist()
            differences.append(Difference(position, first - second))
    errors = (torch.stack(ours) - torch.stack(theirs)).nan_to_num(0.0).abs()
    finite = torch.stack(theirs)[torch.stack(theirs).isfinite()]
    return GreedyFinding(
        dtype=str(dtype).removeprefix("torch."),
        prompt=len(prompt.ids),
        tokens=len(told),
        ended=told[-1] == prompt.map.eos,
        same=len(told) - len(differences),
        logit_error=float(errors.max()),
        logit_spread=float(finite.std()),
        differences=tuple(differences),
    )


@dataclass(frozen=True)
class _Prompt:
    """A text's prompt, in the checkpoint's own numbers [P] and as rows of its table."""

    ids: list[int]
    rows: Tensor
    map: TokenMap

    @classmethod
    def of(cls, repository: Path, family_name: str) -> _Prompt:
        versions = {name: repository / name / "1" for name in ("vocoder", "frontend", "encoder")}
        family, speech = load_family(family_name), SpeechFormat.read(versions["vocoder"])
        encoder, voices = TableEncoder(versions["encoder"]), family.voices(versions["encoder"])
        frontend, tokens = family.frontend(versions["frontend"], speech), family.token_map(speech)
        segment = next(iter(frontend.segments(TEXT, voices[0].said)))
        ids = encoder.ids(segment.units, 0, None)
        return cls(ids, encoder.prompt(segment.units, 0, None), tokens)

    def allowed(self, logits: Tensor, position: int) -> Tensor:
        """Logits [V] without the tokens that may not be drawn there; the first is never the end."""
        logits = logits.clone()
        if position == 0:
            logits[self.map.eos] = -torch.inf
        if self.map.allowed is None:
            return logits
        return self.map.allowed.apply(logits[None, None], torch.tensor([[position]]))[0, 0]


@torch.inference_mode()
def _theirs(
    downloads: Downloads, prompt: _Prompt, count: int, dtype: torch.dtype, device: str, is_narrow: bool
) -> tuple[list[int], list[Tensor]]:
    """The likeliest tokens [T], numbered as here, and the logits [V] that they were the likeliest of; from
    weights as the repository keeps them."""
    folder = downloads.base or downloads.talker
    speech = layout_of(downloads.family).find(
        TextTokens(folder), DecoderConfig.from_file(folder / "config.json"), folder
    )
    model = _reference(downloads, dtype).to(torch.device(device)).eval()
    for weight in model.parameters() if is_narrow else ():
        weight.copy_(narrowed(weight))
    numbers = torch.tensor([*range(speech.first, speech.first + speech.num_codes), speech.end])
    tokens, logits = list[int](), list[Tensor]()
    given, past = torch.tensor([prompt.ids], device=device), None
    while len(tokens) < count:
        out = model(input_ids=given, past_key_values=past, use_cache=True, logits_to_keep=1)
        past = out.past_key_values
        found = prompt.allowed(out.logits[0, -1].float().cpu()[numbers], len(tokens))
        tokens.append(int(found.argmax()))
        logits.append(found)
        if tokens[-1] == prompt.map.eos:
            break
        given = torch.tensor([[_number(tokens[-1], speech)]], device=device)
    return tokens, logits


def _reference(downloads: Downloads, dtype: torch.dtype) -> torch.nn.Module:
    """transformers' own class; for weights that come alone, it is given those of the decoder among them."""
    model: torch.nn.Module
    if downloads.base is None:
        model = AutoModelForCausalLM.from_pretrained(downloads.talker, dtype=dtype)
        return model
    make: Callable[..., torch.nn.Module] = AutoModelForCausalLM.from_config
    model = make(AutoConfig.from_pretrained(downloads.base), dtype=dtype)
    with safe_open(downloads.talker / WEIGHTS, "pt") as file:
        names = [name for name in file.keys() if name.startswith(ALONE)]  # noqa: SIM118
        own = {name.removeprefix(ALONE): file.get_tensor(name) for name in names}
    missing = model.load_state_dict(own, strict=False).missing_keys
    assert not [name for name in missing if name != "lm_head.weight"], missing  # which may be tied
    return model


def _is_narrow(repository: Path) -> bool:
    return Checkpoint(repository / "talker" / "1")[EMBEDDINGS].dtype is torch.bfloat16


def _number(token: int, speech: SpeechTokens) -> int:
    return speech.end if token == speech.num_codes else speech.first + token


@torch.inference_mode()
def _ours(
    repository: Path, prompt: _Prompt, told: list[int], dtype: torch.dtype, device: str
) -> list[Tensor]:
    """Logits [V] after the prompt and after each of the tokens but the last, as it is served."""
    checkpoint = Checkpoint(repository / "talker" / "1")
    decoder = load_decoder(
        checkpoint.config,
        checkpoint,
        num_slots=1,
        max_positions=len(prompt.ids) + len(told) + 1,
        dtype=dtype,
        device=device,
    )
    rows, ones = Rows.of([0], decoder.device), torch.ones(1, dtype=torch.int64, device=decoder.device)
    logits = [decoder.prefill([0], prompt.rows[None], [len(prompt.ids)]).logits[0, 0]]
    for token in told[:-1]:
        root = torch.full((1, 1, 1), token, dtype=torch.int64, device=decoder.device)
        scored = decoder.score(TokenTree(root), rows)
        decoder.commit(Accepted(torch.zeros_like(ones)[:, None], ones, root[:, 0]), ROOT_ALONE, rows)
        logits.append(scored.logits[0, 0])
        logits[-2] = logits[-2].float().cpu().clone()
    logits[-1] = logits[-1].float().cpu().clone()
    return [prompt.allowed(found, position) for position, found in enumerate(logits)]


def _dtype_that_fits(folder: Path, device: str) -> torch.dtype:
    """float32 where there is room for the weights in it, and as much again for what is computed."""
    needed = 2.0 * sum(path.stat().st_size for path in folder.glob("*.safetensors")) * 1.5
    return torch.float32 if needed < _free_bytes(device) else torch.bfloat16


def _free_bytes(device: str) -> float:
    if device != "cpu":
        return float(np.float64(torch.cuda.mem_get_info()[0]))
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    (available,) = (line.split()[1] for line in lines if line.startswith("MemAvailable"))
    return 1024.0 * int(available)
