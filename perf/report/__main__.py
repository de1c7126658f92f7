"""`python -m perf.report`: what lies in perf/results as one page, perf/RESULTS.md, with tables and pictures,
and the table at the head of README.md.

A chapter stands where its report lies in the folder, or in `earlier/` within it: there lie those of weights
that were shipped before, and the page says so. Of the others, it has the command that makes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instruments.environment import ROOT
from instruments.report import EARLIER, fill, find
from perf.report import pictures, tables
from perf.report.bars import BARS, bars
from perf.report.pictures import Report

_README_TABLE = "by streams"


@dataclass(frozen=True)
class Chapter:
    """Of one report.

    Args:
        report: its name in the folder of results.
        command: what makes it, for those who have none.
        remark: what the figures are, in whole sentences.
        draw: into a file; None: there is nothing to look at.
        picture: its name, where the report has several.
    """

    title: str
    report: str
    command: str
    remark: str
    table: Callable[[Report], str]
    draw: Callable[[Report, Path], None] | None = None
    picture: str = ""


CHAPTERS = (
    Chapter(
        "By streams",
        "latency",
        "python -m perf.latency",
        "Closed streams ask again when they have been answered, playing ones when they have been heard.",
        tables.by_streams,
        pictures.draw_streams,
    ),
    Chapter(
        "The way to the first chunk",
        "latency",
        "python -m perf.latency",
        "Of one closed stream, by stage, as the server's own metrics have them.",
        tables.first_chunk_path,
    ),
    Chapter(
        "Beside others",
        "latency",
        "python -m perf.latency",
        "How the first chunk grows with closed streams, each in units of its own first chunk of one stream. "
        "Others' figures are as published, on GPUs and with larger models; we ran none of them.",
        tables.peers,
        pictures.draw_peers,
        "peers",
    ),
    Chapter(
        "By requests a second",
        "load",
        "python -m perf.load",
        "Requests that wait for nobody.",
        tables.by_rates,
        pictures.draw_rates,
    ),
    Chapter(
        "As NVIDIA's perf_analyzer sees it",
        "perf_analyzer",
        "python -m perf.perf_analyzer --rates 4 8",
        "The ensemble, and each model alone, read from the profile that it exports; beside it what our own "
        "generators see of the same load, one after the other. On shared cores the two are up to a third "
        "apart, either way, which is not explained in full: ours are Python, and take more of the server's "
        "cores. With the server on one core and them on the other (`taskset`), both saw the same within 5 % "
        "at 4 and 16 at once.",
        tables.by_perf_analyzer,
    ),
    Chapter(
        "By the length of texts",
        "lengths",
        "python -m perf.load --rates 4 --lengths short medium long mixed --spacing even "
        "--out perf/results/lengths.json",
        "Means, as Du et al. 2021 have them in their table 1 (at 70 requests a second on a GPU).",
        tables.by_lengths,
    ),
    Chapter(
        "Streamed, and whole",
        "twin",
        "python -m perf.twin --shares 0.2 0.4 0.6 0.8 0.95",
        "The same models in static batches, which answer with whole utterances, by shares of what they can "
        "(Du et al. 2021, figures 3 and 4).",
        tables.streamed_and_whole,
        pictures.draw_twin,
    ),
    Chapter(
        "What the arithmetic allows",
        "limit",
        "python -m perf.limit",
        "Multiplications of the shipped weights, without drafts, and what a core makes of them in the "
        "talker's own products. Du et al. 2021 answer 100 requests a second within 80 ms, on a GPU.",
        tables.limit,
    ),
    Chapter(
        "Drafting off, fixed, and as it pays",
        "drafts",
        "python -m perf.load --beside drafter=none --beside drafter=heads,nodes=4,pin_draft=true "
        "--out perf/results/drafts.json",
        "The server's default drafts what pays at the moment.",
        tables.by_rates,
        pictures.draw_rates,
    ),
    Chapter(
        "Windows together, and one by one",
        "batches",
        "python -m perf.load --rates 8 12 16 --change vocoder.max_batch_size=1 "
        "--out perf/results/batches.json",
        "What waits for the vocoder is decoded together; beside it, a server that decodes one window a pass.",
        tables.by_rates,
    ),
    Chapter(
        "Deadlines, and first in, first out",
        "order",
        "python -m perf.load --change talker.max_lead_ms=0 --beside drafter=none "
        "--out perf/results/order.json",
        "Beside the server as it is, one whose streams never step aside and never draft, and that keeps no "
        "more of them than a step decodes.",
        tables.by_rates,
        pictures.draw_rates,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m perf.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--results", type=Path, default=ROOT / "perf" / "results", help="(perf/results)")
    add("--page", type=Path, default=ROOT / "perf" / "RESULTS.md", help="(perf/RESULTS.md)")
    add("--readme", type=Path, default=ROOT / "README.md", help="(README.md)")
    options = parser.parse_args(arguments)
    names = {one.report for one in (*CHAPTERS, *BARS)}
    found = {name: find(options.results, name) for name in names}
    page = _page(found, options.results, options.page.parent)
    options.page.write_text("\n\n".join(page) + "\n", encoding="utf-8")
    if (latency := found["latency"]) is not None:
        readme = options.readme.read_text(encoding="utf-8")
        table = tables.by_streams(_read(latency))
        options.readme.write_text(fill(readme, {_README_TABLE: table}), encoding="utf-8")
    print(options.page)
    return 0


def _page(found: Mapping[str, Path | None], results: Path, folder: Path) -> Iterator[str]:
    yield "# What was measured"
    yield "Made by `python -m perf.report` of the reports in `results/`, which have all samples."
    yield "## What is wanted, and where it stands"
    yield "With the weights that are shipped, on the machines that the reports name."
    own = {name: path for name, path in found.items() if path is not None and path.parent.name != EARLIER}
    yield bars({name: _read(path) for name, path in own.items()})
    missing = []
    for chapter in CHAPTERS:
        path = found[chapter.report]
        if path is None:
            missing.append(f"- {chapter.title}: `{chapter.command}`")
            continue
        report = _read(path)
        yield f"## {chapter.title}"
        yield chapter.remark
        yield _origin(report)
        if path.parent.name == EARLIER:
            yield "With the weights that were shipped before; not measured with these yet."
        yield chapter.table(report)
        if chapter.draw is not None:
            picture = results / f"{chapter.picture or chapter.report}.png"
            chapter.draw(report, picture)
            yield f"![{chapter.title.lower()}]({picture.relative_to(folder).as_posix()})"
    if missing:
        yield "## Not measured yet"
        yield "\n".join(missing)


def _origin(report: Report) -> str:
    """On what it was measured, and by which command."""
    made = report["environment"]
    stolen = made.get("stolen_percent")
    shared = "" if stolen is None else f"; {stolen:.0f} % of its time went to others"
    return (
        f"`{made['command']}`, {made['date'][:10]}, {made['cores']} cores of {made['cpu']} "
        f"({made['cpu_path']}{shared}), commit {made['commit'][:10]}."
    )


def _read(path: Path) -> Report:
    report: Report = json.loads(path.read_text(encoding="utf-8"))
    return report


if __name__ == "__main__":
    sys.exit(main())
