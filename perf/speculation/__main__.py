"""`python -m perf.speculation`: every speculative method beside plain decoding of the same loop, in one run.

Speed: the same sentences at 1, 4 and 16 streams, plain and the method by turns. Quality: held-out sentences
spoken offline by the served step, heard by an independent recogniser, in pairs with plain decoding. Writes
JSON, a table, pictures, and the tables of `perf/SPECULATION.md`. What was measured before is kept in
`build/speculation` and not measured again, as long as weights and settings are the same; of changes of the
code it knows nothing (`--fresh`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from talkahead.backbone.decoder_choice import Precision
from talkahead.families.phonemic.text_encoder import TextEncoderConfig

from instruments import report
from instruments.environment import ROOT, Environment
from instruments.material import Sentence, held_out_sentences
from instruments.recipes import command
from instruments.sampling import add_sampling, sampling_of
from instruments.setting import Setting
from perf.arguments import add_precision
from perf.speculation import pictures, tables
from perf.speculation.bench import Bench, Row, Scale
from perf.speculation.installation import Installation
from perf.speculation.kept import Kept
from perf.speculation.methods import Method, Talker
from perf.speculation.plan import Part, Plan, absent, chosen, plans, same_trees
from perf.speculation.quality import WorkerContext, teacher_word_errors
from perf.speculation.runner import Runner
from perf.speculation.shares import measure, pairs

_PER_CATEGORY, _CATEGORIES = 84, 6
_WHOLE = Scale(504, 96, 30, (1, 4, 16), seeds=(1, 2, 3, 4), sweep_seeds=(1, 2), tree_seeds=(1, 2))
_OUT, _PAGE = Path("perf/results/speculation.json"), Path("perf/SPECULATION.md")
_MUST_AGREE = ("temperature", "top_p", "precision", "seed", "scale")
_SHARES = Path("perf/results/speculation_shares.json")
_PROFILED, _PROFILED_EACH, _REPEATS = 32, 4, 3
"""Sentences, for each stream at most, and how often."""
_QUICK = Scale(24, 12, 16, (1, 4, 16), seeds=(1, 2), sweep_seeds=(1,), tree_seeds=(1,))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.page:
        write_page()
        return 0
    environment = Environment.record()
    torch.set_num_threads(1)
    found = _installation(options)
    try:
        candidates = plans(found)
        selected = chosen(candidates, options.rows, quick=options.quick)
    except ValueError as error:
        parser.error(str(error))
    for one in (waiting := absent(found)):
        print(f"rows of {one.part} wait for {one.name}: {command(one.name)}", file=sys.stderr)
    if options.profile:
        return _profile(options, found, environment)
    scale = _scale(parser, options)
    context = _context(options, found)
    kept = Kept(options.work / "parts", options.fresh)
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        bench = Bench(context, scale, kept, pool, options.workers)
        # Speed first: nothing else runs while it is taken.
        for plan in selected:
            bench.time(plan)
        for plan in selected:
            bench.hear(plan)
        rows = bench.rows(selected)
        settings = {
            "temperature": context.runner.sampling.temperature,
            "top_p": context.runner.sampling.top_p,
            "precision": str(options.precision),
            "seed": options.seed,
            "clock": "CPU time of the decoding thread",
            "scale": asdict(scale),
            "surprise": asdict(bench.surprise()),
            "teacher_word_errors": teacher_word_errors(bench.teacher()),
            "absent": [asdict(one) for one in waiting],
            "same_trees": same_trees(found),
        }
        parted = bench.parted(selected)
    out = options.out or (options.work / "quick.json" if options.quick else _OUT)
    rows = in_order(candidates, [*rows, *earlier(out, settings, rows, found)])
    report.save(out, "speculation", environment, settings, rows)
    print(tables.everything(rows))
    if out == _OUT:
        write_page()
    else:
        pictures.draw_all(rows, out)
    for line in parted:
        print(f"NOT THE SAME TOKENS: {line}", file=sys.stderr)
    return 1 if parted else 0


def write_page() -> None:
    """The page and its pictures, from the report, if there is one; what the server does, from its own."""
    measured, served, otherwise = map(_report, (_OUT.stem, "latency", "methods"))
    found = Installation(ROOT / "model_repository")
    nothing: dict[str, Any] = {"results": [], "settings": {"absent": [], "same_trees": []}, "environment": {}}
    known = measured or nothing
    rows = [Row.from_json(one) for one in known["results"]]
    if rows:
        pictures.draw_all(rows, _OUT)
    here = [row for row in rows if found.has(Method(row.draft, talker=Talker(row.talker)))]
    outdated = sorted({row.draft for row in here if not found.is_current(row.talker, row.draft, row.hashes)})
    filled = tables.of_page(
        rows, known["settings"], known["environment"], served, otherwise, outdated=outdated
    )
    _PAGE.write_text(report.fill(_PAGE.read_text(encoding="utf-8"), dict(filled)), encoding="utf-8")


def _report(name: str) -> dict[str, Any] | None:
    path = report.find(_OUT.parent, name)
    return None if path is None else json.loads(path.read_text(encoding="utf-8"))


def _profile(options: argparse.Namespace, found: Installation, environment: Environment) -> int:
    """Where steps spend their time, pair by pair."""
    sampling = sampling_of(options, found.talker(Talker.SHIPPED))
    sentences = interleaved(options.sentence_seed, found)[: options.utterances or _PROFILED]
    runner = Runner(found, sentences, sampling, options.seed, options.precision.dtype)
    rows = [
        measure(runner, method, streams, min(len(sentences), _PROFILED_EACH * streams), _REPEATS)
        for method in pairs(found)
        for streams in options.streams or (1, 16)
    ]
    settings = {"precision": str(options.precision), "clock": "CPU time of the decoding thread"}
    report.save(options.out or _SHARES, "speculation_shares", environment, settings, rows)
    print(report.table([row.line() for row in rows]))
    return 0


def earlier(path: Path, settings: Mapping[str, Any], rows: Sequence[Row], found: Installation) -> list[Row]:
    """Rows of the report that is there already: measured in the same way, of the files as they are now, and
    not measured again."""
    if not path.exists():
        return []
    known = json.loads(path.read_text(encoding="utf-8"))
    now = json.loads(json.dumps(settings))
    if any(known["settings"].get(name) != now[name] for name in _MUST_AGREE):
        return []
    titles = {row.title for row in rows}
    read = (Row.from_json(one) for one in known["results"] if one["title"] not in titles)
    return [row for row in read if found.is_current(row.talker, row.draft, row.hashes)]


def in_order(candidates: Sequence[Plan], rows: Sequence[Row]) -> list[Row]:
    """As planned, whenever they were measured."""
    places = {plan.method.title: place for place, plan in enumerate(candidates)}
    return sorted(rows, key=lambda row: (places.get(row.title, len(places)), row.streams))


def _installation(options: argparse.Namespace) -> Installation:
    return Installation(options.repository, options.tuned, options.smaller)


def _context(options: argparse.Namespace, found: Installation) -> WorkerContext:
    sentences = interleaved(options.sentence_seed, found)
    sampling = sampling_of(options, found.talker(Talker.SHIPPED))
    runner = Runner(found, sentences, sampling, options.seed, options.precision.dtype)
    return WorkerContext(runner, Setting(found.codec, options.work / "heard"))


def interleaved(seed: int, found: Installation) -> tuple[Sentence, ...]:
    """Test sentences of all categories by turns: the first few are like all of them."""
    voices = TextEncoderConfig.from_file(found.encoder(Talker.SHIPPED) / "encoder.json").voices
    chosen_ones = held_out_sentences("test", _PER_CATEGORY, voices, seed)
    categories = [
        chosen_ones[start : start + _PER_CATEGORY] for start in range(0, len(chosen_ones), _PER_CATEGORY)
    ]
    return tuple(chain.from_iterable(zip(*categories, strict=True)))


def _scale(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Scale:
    scale = _QUICK if options.quick else _WHOLE
    given = {
        "sentences": options.sentences,
        "sweep_sentences": options.sweep_sentences,
        "timed_sentences": options.utterances,
        "streams": tuple(options.streams) if options.streams else None,
    }
    scale = replace(scale, **{name: value for name, value in given.items() if value is not None})
    if scale.timed_sentences < max(scale.streams):
        least = max(scale.streams)
        parser.error(f"utterances: {scale.timed_sentences}, allowed: {least} and more, to fill the streams")
    # A row is compared with plain decoding of the same sentences: there must be as many of those.
    return replace(scale, sweep_sentences=min(scale.sweep_sentences, scale.sentences))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf.speculation", description=__doc__)
    add = parser.add_argument
    add("--rows", nargs="+", default=[], metavar="ROW",
        help=f"only these: {', '.join(Part)}, or what a row's title begins with")  # fmt: skip
    add("--quick", action="store_true", help="the headlines alone, on few sentences: does everything run?")
    add(
        "--page",
        action="store_true",
        help="measure nothing: write the page anew from the reports",
    )
    add("--profile", action="store_true", help="only where a step's time goes, pair by pair")
    add("--fresh", action="store_true", help="measure again what earlier runs have kept")
    add("--sentences", type=int, help=f"heard of each headline (all: {_WHOLE.sentences})")
    add("--sweep-sentences", type=int, help=f"heard of other rows ({_WHOLE.sweep_sentences})")
    add("--utterances", type=int, help=f"of the speed pass ({_WHOLE.timed_sentences})")
    add("--streams", type=int, nargs="+", metavar="N", help="of the speed pass; quality goes by the first")
    add("--repository", type=Path, default=ROOT / "model_repository", help="(%(default)s)")
    add("--tuned", type=Path, help="a repository with the base that learned on together with its heads")
    add("--smaller", type=Path, help="a repository with a smaller talker, for plain decoding")
    add("--work", type=Path, default=Path("build/speculation"), help="what is kept (%(default)s)")
    add(
        "--workers", type=int, default=os.cpu_count() or 1, help="processes of the quality pass (%(default)s)"
    )
    add_precision(parser, Precision.INT8, ", as the talker is served")
    add_sampling(parser)
    add("--seed", type=int, default=1, help="of the quality pass's draws (%(default)s)")
    add("--sentence-seed", type=int, default=1, help="of the choice of sentences (%(default)s)")
    add("--out", type=Path, help=f"({_OUT}, whose tables go into {_PAGE}; of --quick in --work)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
