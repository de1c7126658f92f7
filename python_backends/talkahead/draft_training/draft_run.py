"""`talkahead drafts train`: stage after stage, each of which goes on where it was stopped.

The talker speaks; drafts learn from that, one after the other; trees are calibrated, acceptance is counted
and the gain measured on texts that nothing was learned from. All of it lies in work folders until it is
whole, and each draft comes beside the talker in one move.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from typing import Any

import torch

import talkahead
from talkahead.backbone.llama import Llama
from talkahead.config import AUTO, RequestOptions, parameters_of
from talkahead.draft_training.accepted_paths import TOLERANCE, WIDE, count_accepted
from talkahead.draft_training.beginnings import check_layers, part_of, take_over
from talkahead.draft_training.count_acceptance import count_acceptance
from talkahead.draft_training.curriculum import Curriculum
from talkahead.draft_training.draft_order import DraftOrder
from talkahead.draft_training.draft_ranks import count_ranks
from talkahead.draft_training.gain import Bench, Gain, verdict
from talkahead.draft_training.kept_memory import keep_freed_memory
from talkahead.draft_training.learner import Learner, Network
from talkahead.draft_training.likely_tokens import LikelyTokens
from talkahead.draft_training.own_speech import OwnSpeech, Talker, Utterance
from talkahead.draft_training.reader import Reader
from talkahead.draft_training.speech_folder import SpeechFolder
from talkahead.draft_training.speech_generator import SpeechGenerator
from talkahead.draft_training.stored_lessons import StoredLessons
from talkahead.draft_training.texts import Split, read_texts
from talkahead.draft_training.work_folder import hold_to, whole
from talkahead.drafting.calibrated_trees import CalibratedTree, CalibratedTrees
from talkahead.drafting.draft_artifact import CONFIG, WEIGHTS, Draft, target_hash
from talkahead.drafting.draft_files import ACCEPTANCE, TREES
from talkahead.drafting.draft_heads import DraftHeads
from talkahead.drafting.drafters import DRAFTERS
from talkahead.drafting.rank_paths import AcceptedPaths, RankTree
from talkahead.errors import TalkaheadError
from talkahead.generation_config import read_sampling
from talkahead.manifest import Manifest, readable_files, sha256
from talkahead.speculation.pairs import PLAIN

_LEARNED = "learned.json"
_LONGEST_S = 15.0
"""Of a passage that does not end by itself."""
_LARGE = 1 << 24
"""Weights of a vocabulary's table from which on heads guess by the talker's head, not by one of their own."""
_RANK = 128
"""Of the output that heads and modules have for themselves, where tables are small, but states wide: they
guess the shipped talker's tokens as well through so few numbers after some learning, and a guess costs half.
They are told tokens by the talker's embeddings."""
_CALIBRATION, _HELD_OUT = 20_000, 10_000
"""Tokens at most that trees are counted on, and that nothing learns from; else a tenth of the others."""
_VALIDATION, _COUNTED, _TIMED, _TRIED = 2, 24, 8, 8
"""Batches that a run is judged by while it learns, texts of the two measurements after it, and texts that
a tolerance is counted on."""
NODES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Of trees, root included: as large as a request gets unasked."""
_SHOWN = 8
"""Nodes of the tree that tells, while heads learn, how far they are followed."""
_SEEDS = {Split.TRAIN: 1_000_000_000, Split.CALIBRATION: 2_000_000_000, Split.HELD_OUT: 3_000_000_000}
"""Of the first utterance, beside the seed that is asked for."""


def carry_out(orders: Sequence[DraftOrder], say: Callable[[str], None]) -> None:
    """Drafts of one talker, which learn from the same speech; all of them are whole before the first is put
    in its place, so that the same command goes on wherever it was stopped.

    Args:
        say: takes a line about what is going on.
    """
    keeps_prompts = any(order.reads_prompts for order in orders)
    runs = [DraftRun(replace(order, keeps_prompts=keeps_prompts), say) for order in orders]
    # None is refused after one that has begun; and all have begun before any ends, for with the last of them
    # goes the speech.
    for run in runs:
        run.begin()
    for run in runs:
        run.make()
    for run in runs:
        run.put()


class DraftRun:
    """One order.

    Args:
        say: takes a line about what is going on.
    """

    def __init__(self, order: DraftOrder, say: Callable[[str], None]) -> None:
        order.check()
        self._order, self._say = order, say
        self._texts = read_texts(order.texts)
        self._reader = Reader(order.repository)
        self._talker = Talker.serving(order.talker, order.device)
        check_layers(self._talker.config, self._layers)
        self._target = target_hash(order.talker)
        self._sampling = RequestOptions(**asdict(read_sampling(order.talker)))
        self._draft = order.work_folder / "draft"
        self.speech = SpeechFolder.beside(order.work_folder, self._spoken_by)

    def begin(self) -> None:
        """Takes the work folder; raises TalkaheadError for one that was begun by another recipe."""
        hold_to(self._order.work_folder, self._recipe)

    @property
    def _spoken_by(self) -> dict[str, Any]:
        """What the speech depends on."""
        order = self._order
        return {
            "talker": self._target,
            "texts": sha256(order.texts),
            **asdict(read_sampling(order.talker)),
            **{name: getattr(order, name) for name in ("minutes", "seed")},
            "keeps_prompts": self._keeps_prompts,
        }

    @property
    def _keeps_prompts(self) -> bool:
        return self._order.keeps_prompts or self._order.reads_prompts

    @property
    def _recipe(self) -> dict[str, Any]:
        """All that what lies in the work folder depends on."""
        order = self._order
        return {
            "draft": order.shape.name,
            **self.speech.recipe,
            "start": sha256(order.start / WEIGHTS) if order.start else None,
            **{name: getattr(order, name) for name in ("block_size", "steps", "seconds", "rate")},
        }

    def make(self) -> None:
        """All stages until it is whole; what is done already is not done again."""
        self.speak()
        if not self._draft.exists():
            self._learn()
        if self._is_tree and not (self._draft / TREES).exists():
            self._calibrate()
        if not (self._draft / ACCEPTANCE).exists():
            self._count()
        bench = self._bench()
        gain = bench.measure(self._held_out_prompts(_TIMED), self._sampling, _SEEDS[Split.HELD_OUT])
        self._describe(gain)
        parameters = parameters_of(self._order.talker.parent)
        told = parameters.get("drafter", PLAIN.drafter) if parameters else AUTO
        self._say(verdict(self._order.drafter, bench.nodes, gain, bench.served, told))

    @property
    def _is_tree(self) -> bool:
        return DRAFTERS[self._order.drafter].is_tree

    def _tell(self, what: str, line: str) -> None:
        self._say(f"{what}: {line}")

    # Speech

    @cached_property
    def _generators(self) -> dict[Split, SpeechGenerator]:
        found = {}
        for split, own in self._texts.items():
            passages = [passage for text in own for passage in self._reader.passages(text)]
            if not passages:
                raise TalkaheadError(f"--texts {self._order.texts}: the talker can speak none of {len(own)}")
            found[split] = SpeechGenerator(self._reader, passages, _SEEDS[split] + self._order.seed)
        return found

    @cached_property
    def _positions(self) -> int:
        """Of prompt and speech at most."""
        speech = self._reader.speech
        reader, passages = self._reader, [two for one in self._generators.values() for two in one.passages]
        rows = max(len(reader.prompt(passages[0], voice)) for voice in range(len(reader.voices)))
        units = max(len(units) for passage in passages for units in passage.units.values())
        longest = speech.frames(_LONGEST_S) * speech.steps_per_frame
        return min(rows + units + reader.room + longest, speech.max_positions)

    def speak(self) -> None:
        """The first stage, if nobody else has done it."""
        with self.speech.alone(partial(self._tell, "speech")):
            self._speak()

    def _speak(self) -> None:
        speech = self._reader.speech
        tokens = int(60 * self._order.minutes * speech.frames_per_s * speech.steps_per_frame)
        wanted = {
            Split.TRAIN: tokens,
            Split.CALIBRATION: min(tokens // 10, _CALIBRATION),
            Split.HELD_OUT: min(tokens // 10, _HELD_OUT),
        }
        missing = {
            name: count for name, count in wanted.items() if self.speech.store(name).num_tokens < count
        }
        decoder = self._talker.decoder(self._positions) if missing else None
        for split, count in missing.items():
            assert decoder is not None
            self._generators[split].fill(
                *(self.speech.store(split), count, decoder, self._sampling),
                partial(self._tell, f"speech ({split})"),
                keeps_prompts=self._keeps_prompts,
            )

    def _held_out_prompts(self, count: int) -> list[torch.Tensor]:
        return self._generators[Split.HELD_OUT].prompts(0, count)

    def _spoken(self, split: Split) -> list[Utterance]:
        store = self.speech.store(split)
        return [store[number].spoken for number in range(len(store)) if store.lengths[number] > 1]

    # Learning

    def _learn(self) -> None:
        order, folder = self._order, self._order.work_folder
        keep_freed_memory()
        part = part_of(order.talker, self._layers).to(order.device)
        torch.manual_seed(order.seed)
        network = self._begun(part).to(order.device)
        _make_learn(network)
        store = self.speech.store(Split.TRAIN)
        guesses = 1 if isinstance(network, Llama) else len(network)
        curriculum = Curriculum.of(
            *(store.num_tokens, part.lm_head.weight.shape[0], guesses, order.rate),
            spreads=order.drafter == "heads",
            steps=order.steps,
        )
        likely = LikelyTokens(part.lm_head) if order.shape.soft else None
        lessons, validation = (
            StoredLessons(self.speech.store(split), part, curriculum.positions, order.reads_prompts, told)
            for split, told in ((Split.TRAIN, likely), (Split.HELD_OUT, None))
        )
        weights = sum(one.numel() for one in network.parameters() if one.requires_grad)
        self._say(
            f"learning: {weights / 1e6:.1f} million weights, at most {curriculum.steps:,} steps of "
            f"{curriculum.places:,} places"
        )
        learner = Learner(
            *(network, order.shape, part, curriculum, validation.some(_VALIDATION), folder),
            order.seconds,
            self._followed if self._is_tree else lambda network: "",
        )
        steps = learner.learn(lessons, order.seed, partial(self._tell, "learning"))
        saved = folder / "draft.partial"
        Draft(order.drafter, network.to(torch.bfloat16), self._target).save(saved)
        (saved / _LEARNED).write_text(
            json.dumps({"steps": steps, "nats": learner.best_nats}), encoding="utf-8"
        )
        saved.rename(self._draft)
        (folder / "run.pt").unlink()

    def _begun(self, part: Llama) -> Network:
        """The draft before its first step."""
        order = self._order
        vocabulary, width = part.lm_head.weight.shape
        block = order.block_size or (512 if width < 2_048 else 1_024)
        is_large = vocabulary * width >= _LARGE
        rank = None if is_large or width < 2 * _RANK else _RANK
        shares = order.shape.sees_tokens and (is_large or rank is not None)
        network = order.shape.begin(part, block, shares_tables=shares, output_rank=rank)
        if order.start is not None:
            taken = take_over(network, order.drafter, order.start)
            self._say(f"learning: begins with {taken / 1e6:.1f} million weights of {order.start}")
        return network

    @property
    def _layers(self) -> list[int]:
        """Of the talker, that the draft begins from."""
        last = self._talker.config.num_hidden_layers
        by_drafter = {"heads": [], "mtp": [last - 1], "draft_lm": list(range(self._order.shape.size))}
        return by_drafter[self._order.drafter]

    @cached_property
    def _sample(self) -> dict[Split, list[Utterance]]:
        return {split: self._spoken(split)[:16] for split in (Split.CALIBRATION, Split.HELD_OUT)}

    @torch.inference_mode()
    def _followed(self, network: Network) -> str:
        assert isinstance(network, DraftHeads)
        chosen, judged = (count_ranks(network, own, self._sampling) for own in self._sample.values())
        tokens = judged.committed_per_step(chosen.best_tree(_SHOWN))
        return f", {tokens:.2f} tokens a step of {_SHOWN} nodes"

    # Measuring

    def _calibrate(self) -> None:
        network = Draft.load(self._draft, self._order.talker).network
        assert isinstance(network, DraftHeads)
        spoken = self._spoken(Split.CALIBRATION)
        paths = count_ranks(network.to(self._order.device), spoken, self._sampling)
        trees = CalibratedTrees.of(sha256(self._draft / WEIGHTS), paths, NODES)
        if trees.trees[-1].nodes == 1:
            raise TalkaheadError(
                f"the heads in {self._draft} guessed no token right; let them learn from more speech "
                "(--minutes), in another --work"
            )
        accepted = self._accepted(network, paths.best_tree(round(WIDE * NODES[-1])))
        trees = CalibratedTrees.of(trees.draft, paths, NODES, {TOLERANCE: accepted})
        with whole(self._draft / TREES) as folder:
            trees.save(folder)
        for trials in (1, TOLERANCE):
            self._tell_trees(trees.of_trials(trials), trials)

    def _accepted(self, network: DraftHeads, tree: RankTree) -> AcceptedPaths:
        """What a tolerance accepts of a wide tree, on texts that calibrate."""
        generator = self._generators[Split.CALIBRATION]
        speech = OwnSpeech(
            self._talker,
            generator.prompts(0, _TRIED),
            self._sampling,
            _SEEDS[Split.CALIBRATION],
            self._reader.allowed,
        )
        return count_accepted(network, speech, tree, TOLERANCE, self._talker.config.eos)

    def _tell_trees(self, trees: Sequence[CalibratedTree], trials: int) -> None:
        told = ", ".join(f"{one.nodes}: {one.committed_per_step:.2f}" for one in trees)
        draws = "" if trials == 1 else f" with tolerance {trials}"
        self._say(f"trees: tokens a step by nodes{draws}, where they were counted: {told}")

    def _count(self) -> None:
        counted = count_acceptance(
            *(self._draft, DRAFTERS[self._order.drafter].sizes(self._draft).nodes, self._order.talker),
            *(self._held_out_prompts(_COUNTED), self._sampling, _SEEDS[Split.HELD_OUT]),
            positions=self._positions,
            device=self._order.device,
            allowed=self._reader.allowed,
        )
        with whole(self._draft / ACCEPTANCE) as folder:
            counted.save(folder)
        told = ", ".join(f"{nodes}: {tokens:.2f}" for nodes, tokens in counted.committed_per_step.items())
        self._say(f"acceptance: tokens a step by nodes, really spoken with match: {told}")

    def _bench(self) -> Bench:
        order, speech = self._order, self._reader.speech
        self._say("gain: measuring what steps cost on this machine")
        bench = Bench(
            *(order.talker, order.drafter, self._draft, self._positions, order.device),
            self._reader.allowed,
            speech.frames_per_s * speech.steps_per_frame,
        )
        if bench.outdated:
            others = " and ".join(bench.outdated)
            self._say(f"gain: without {others}, which an earlier talker had: train anew")
        return bench

    # Serving

    def _describe(self, gain: Gain) -> None:
        """The manifest of what is served, without which nothing is."""
        order, learned = self._order, json.loads((self._draft / _LEARNED).read_text(encoding="utf-8"))
        names = [CONFIG, WEIGHTS, ACCEPTANCE, *([TREES] if self._is_tree else [])]
        minutes, count = f"{order.minutes:g} minutes", sum(map(len, self._texts.values()))
        data = f"{minutes} of what the talker said by itself, of {count} texts ({sha256(order.texts)[:12]})"
        if order.start is not None:
            data += f", beginning as the draft {sha256(order.start / WEIGHTS)[:12]} where that fits"
        metrics = {
            **{f"held_out_nats_{ahead}": round(nats, 4) for ahead, nats in enumerate(learned["nats"], 1)},
            "tokens_per_step": round(gain.tokens_per_step, 4),
        }
        Manifest(
            order.command,
            f"talkahead {talkahead.__version__}",
            data,
            learned["steps"],
            metrics,
            readable_files(self._draft / name for name in names),
            Manifest.read(order.talker).licence,
            self._target,
        ).write(self._draft)

    def put(self) -> None:
        """Beside the talker, in one move; the work folder is of no more use."""
        order, old = self._order, self._order.work_folder / "replaced"
        beside = order.repository / "talker" / f"drafts-ready-{order.name}"
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(self._draft, beside, ignore=shutil.ignore_patterns(_LEARNED))
        order.destination.parent.mkdir(exist_ok=True)
        if order.destination.exists():
            shutil.rmtree(old, ignore_errors=True)
            shutil.move(order.destination, old)
        beside.rename(order.destination)
        shutil.rmtree(order.work_folder)
        self.speech.leave()


def _make_learn(network: Network) -> None:
    network.requires_grad_(True)
    if isinstance(network, DraftHeads) and network.shares_tables and network.output_rank is None:
        network.narrow(torch.bfloat16)
