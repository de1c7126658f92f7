"""What drafts are asked for, and that they learn it, on a talker of a few weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from talkahead.backbone.decoder_config import DecoderConfig
from talkahead.backbone.llama import Llama
from talkahead.draft_training.draft_losses import Teaching, weighted
from talkahead.draft_training.draft_shape import DraftShape, first_layers
from talkahead.draft_training.learner import TABLES
from talkahead.draft_training.lesson import IGNORE, Lesson, Likely, drawing
from talkahead.draft_training.optimizers import optimizers_of
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.mtp_modules import MtpModules
from torch.nn.utils.rnn import pad_sequence

WIDTH, EOS = 16, 20
CONFIG = DecoderConfig(EOS + 1, EOS, WIDTH, 32, 3, 1, 1, 16)


@pytest.fixture(scope="module")
def talker() -> Llama:
    torch.manual_seed(0)
    llama = Llama(CONFIG).requires_grad_(False)
    for value in llama.parameters():
        value.data *= 4
    return llama


@pytest.fixture(scope="module")
def lesson(talker: Llama) -> Lesson:
    """Three utterances of so many frames, each after a prompt, as the talker sees them."""
    generator = torch.Generator().manual_seed(1)
    starts, counts = torch.tensor([8, 3, 5]), torch.tensor([10, 12, 7])
    frames = [torch.randint(EOS, (int(count),), generator=generator) for count in counts]
    rows = [
        torch.cat([torch.randn(int(start) + 1, WIDTH, generator=generator), talker.model.embed_tokens(own)])
        for start, own in zip(starts, frames, strict=True)
    ]
    joined = pad_sequence(rows, batch_first=True)
    said = [torch.cat([own, torch.tensor([EOS])]) for own in frames]
    tokens = pad_sequence(said, batch_first=True, padding_value=IGNORE)
    states = drawing(talker(joined).hidden, starts, tokens.shape[1])
    return Lesson(joined, starts, states, tokens, Likely.of(talker.lm_head(states)))


def test_heads_are_asked_for_what_follows(talker: Llama, lesson: Lesson) -> None:
    """The loss of head i is that of token t + i at state t, computed one by one."""
    heads = DraftHeads.beginning_as(talker.lm_head.weight, 2, talker.model.embed_tokens.weight)
    for weight in (heads.outward[1].get_parameter("weight"), heads.projector.weight):
        torch.nn.init.normal_(weight)
    heads.requires_grad_(False)
    parts = Teaching(talker).losses(heads, lesson)
    for ahead, part in enumerate(parts.tolist(), 1):
        nats = [
            -float(
                heads(
                    lesson.hidden[row, place : place + 1],
                    torch.nn.functional.pad(lesson.known[row], (0, 2))[None, place : place + 2],
                )[0, ahead - 1].log_softmax(-1)[lesson.tokens[row, place + ahead]]
            )
            for row in range(3)
            for place in range(13 - ahead)
            if lesson.tokens[row, place + ahead] != IGNORE
        ]
        assert part == pytest.approx(sum(nats) / len(nats), rel=1e-4)


def test_later_tokens_count_less() -> None:
    assert float(weighted(torch.tensor([1.0, 1.0, 1.0]))) == pytest.approx(0.8 + 0.64 + 0.512)
    assert float(weighted(torch.tensor([3.0]))) == 3.0
    assert float(weighted(torch.tensor([1.0, 2.0, 4.0]), fades=False)) == 7.0


def test_a_draft_of_all_layers_is_asked_for_what_the_talker_says(talker: Llama, lesson: Lesson) -> None:
    whole = first_layers(talker, CONFIG.num_hidden_layers)
    logits = talker.lm_head(lesson.hidden)
    truth = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), lesson.tokens.flatten(), ignore_index=IGNORE
    )
    nats = Teaching(talker).losses(whole, lesson).detach()
    assert float(nats) == pytest.approx(float(truth), rel=0.02)


@pytest.mark.parametrize("sees_tokens", [True, False])
def test_a_module_is_told_no_token_that_it_is_asked_for(
    talker: Llama, lesson: Lesson, sees_tokens: bool
) -> None:
    modules = MtpModules.beginning_as(talker, 2, sees_tokens=sees_tokens).requires_grad_(False)
    table = talker.model.embed_tokens
    place, other = 6, (lesson.known[:1, 6] + 1) % EOS
    changed = lesson.known[:1].clone()
    changed[0, place] = other
    before, after = (modules(lesson.hidden[:1], table(tokens)) for tokens in (lesson.known[:1], changed))
    for ahead, (one, two) in enumerate(zip(before, after, strict=True), 1):
        # Module `ahead` at state t guesses token t + ahead: it may know those before.
        same = torch.isclose(one, two).all(-1)[0]
        assert bool(same[: place - ahead + 1].all())
        assert bool(same[place - ahead + 1 :].all()) is not sees_tokens


def test_names_tell_kind_and_size() -> None:
    names = ("heads", "heads-6", "heads-blind", "mtp", "mtp-1", "mtp-blind", "draft_lm-3")
    assert [DraftShape.of(name).size for name in names] == [4, 6, 4, 3, 1, 3, 3]
    blind = [name for name in names if not DraftShape.of(name).sees_tokens]
    assert blind == ["heads-blind", "mtp-blind"]
    for wrong in ("head", "heads-", "draft_lm-blind", "mtp-2-deaf"):
        with pytest.raises(ValueError, match=wrong):
            DraftShape.of(wrong)


@pytest.mark.parametrize("kind", ["heads-2", "mtp", "draft_lm-1"])
def test_a_draft_learns(talker: Llama, lesson: Lesson, kind: str) -> None:
    torch.manual_seed(2)
    network = DraftShape.of(kind).begin(talker)
    network.requires_grad_(True)
    optimizers = optimizers_of(network, TABLES, decay=0.0)
    frozen = {name: value.clone() for name, value in talker.state_dict().items()}
    found = []
    for _ in range(150):
        parts = Teaching(talker, sample=64).losses(network, lesson)
        found.append(parts.detach())
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(weighted(parts))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.005
            optimizer.step()
    assert bool((found[-1] < 0.5 * found[0]).all())
    assert all(torch.equal(value, frozen[name]) for name, value in talker.state_dict().items())


def test_modules_are_asked_for_the_right_token(talker: Llama, lesson: Lesson) -> None:
    """The loss of module i is that of token t + i at state t, computed one by one."""
    modules = MtpModules.beginning_as(talker, 2, sees_tokens=True).requires_grad_(False)
    states = modules(lesson.hidden, talker.model.embed_tokens(lesson.known))
    for ahead, (own, part) in enumerate(
        zip(states, Teaching(talker).losses(modules, lesson), strict=True), 1
    ):
        nats = [
            -float(talker.lm_head(own[row, place]).log_softmax(-1)[lesson.tokens[row, place + ahead]])
            for row in range(3)
            for place in range(13 - ahead)
            if lesson.tokens[row, place + ahead] != IGNORE
        ]
        assert float(part) == pytest.approx(sum(nats) / len(nats), rel=1e-4)


def test_a_soft_lesson_asks_for_the_talkers_own_distribution(talker: Llama, lesson: Lesson) -> None:
    """A head that says what the talker says has nothing to learn, and its loss is the entropy."""
    heads = DraftHeads.beginning_as(talker.lm_head.weight, 1).requires_grad_(True)
    states = lesson.hidden[:, :1].expand_as(lesson.hidden)
    shifted = replace(lesson, hidden=states, likely=Likely.of(talker.lm_head(states)))
    loss = Teaching(talker, soft=1.0).losses(heads, shifted)[0]
    torch.autograd.backward(loss)
    spread = torch.distributions.Categorical(logits=talker.lm_head(lesson.hidden[:, 0]))
    counts = (lesson.tokens[:, 1:] != IGNORE).sum(1)
    assert float(loss.detach()) == pytest.approx(
        float((spread.entropy() * counts).sum() / counts.sum()), rel=1e-4
    )
    gradients = [value.grad for value in heads.parameters()]
    assert max(float(one.abs().max()) for one in gradients if one is not None) < 1e-5


def test_a_half_soft_lesson_is_half_of_each(talker: Llama, lesson: Lesson) -> None:
    """Loss and slopes are those of the two cross entropies, taken apart."""
    distributions = talker.lm_head(lesson.hidden).softmax(-1)
    whole = first_layers(talker, 2).requires_grad_(True)
    found = Teaching(talker, soft=0.5).losses(whole, lesson)[0]
    (slopes,) = torch.autograd.grad(found, [whole.lm_head.weight], retain_graph=True)
    hard = Teaching(talker).losses(whole, lesson)[0]
    is_known = lesson.tokens != IGNORE
    wanted = torch.where(is_known, lesson.tokens, 0)
    one_hot = torch.nn.functional.one_hot(wanted, EOS + 1).float()
    targets = (distributions + one_hot) / 2
    logits: list[torch.Tensor] = []
    handle = whole.lm_head.register_forward_hook(lambda *made: logits.append(made[2]))
    Teaching(talker).losses(whole, lesson)
    handle.remove()
    # Not `cross_entropy`, which weighs the logarithm of the sum by what bfloat16 makes of 1.
    wished = (logits[0].logsumexp(-1) - (targets[is_known] * logits[0]).sum(-1)).mean()
    assert float(found.detach()) == pytest.approx(float(wished.detach()), rel=1e-4)
    assert float(found.detach()) != pytest.approx(float(hard.detach()), rel=1e-2)
    (expected,) = torch.autograd.grad(wished, [whole.lm_head.weight])
    # What is expected adds up to 1 as far as bfloat16 goes.
    assert float((slopes - expected).abs().max()) < 0.01 * float(expected.abs().max())
