"""Rows as tables: all of them as text, and those of the page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from talkahead.speculation.contracts import Preserves

from instruments import report
from instruments.recipes import DRAFTS, PAPERS, SHIPPED, TALKERS, command, told
from perf.speculation import served
from perf.speculation.bench import Row
from perf.speculation.methods import NO_DRAFT, Method, Talker
from perf.speculation.plan import HEADS, MORE_HEADS, NODES_TOLERANCE, Absent, Part
from perf.speculation.power import Ablation, detectable, fewest_of_one_kind, share_noticed
from perf.speculation.seeds import TABLES, SeedRow, SeedTable, nearest

_NONE = "-"
_FLOORS: tuple[tuple[str, float | None, float | None], ...] = (
    (f"heads + tolerance {NODES_TOLERANCE}", 2.0, 3.2),
    ("draft_lm + groups", 1.4, 1.7),
    ("mtp + topk", 1.5, 2.0),
    ("best that keeps tokens or distribution", None, None),
)
"""Floor and goal, set beforehand, in the same words as `_fits`; those of the last are of the server."""


_COLUMNS = (
    *(
        "streams",
        "drafter",
        "verifier",
        "options",
        "preserves",
        "speed-up, offline",
        "A",
        "rho (target + draft)",
        "A / rho",
    ),
    *("word errors, %", "less plain, points", "detectable, points", "DNSMOS p808 (plain)"),
    *("wrong endings, % (plain)", "sentences", "remarks"),
)


def everything(rows: Sequence[Row]) -> str:
    """One line a row, for a terminal."""
    return report.table([cells(row) for row in rows])


_UNMEASURED = "Not measured yet."
_PICTURES = {
    "methods": "tokens per step and speed-up by method",
    "accuracy": "word errors against speed, as figure 3 of Yanuka et al. and figure 2 of Tian et al.",
    "tolerance": "speed-up by tolerance and by nodes, as figures 2 and 3 of Li et al.",
    "length": "speed-up by draft length, as figure 4 of Yanuka et al.",
}
"""By the end of the file's name, what each shows."""


def of_page(
    rows: Sequence[Row],
    settings: Mapping[str, Any],
    environment: Mapping[str, Any],
    latency: Mapping[str, Any] | None = None,
    methods: Mapping[str, Any] | None = None,
    outdated: Sequence[str] = (),
) -> Iterator[tuple[str, str]]:
    """Each table of the page by its mark; one that has no rows says so.

    Args:
        environment: that the rows were measured in.
        latency: the report of the server's, if there is one.
        methods: another, of pairs with which speech is another.
        outdated: drafts whose files have changed since.
    """
    absent = [Absent(**one) for one in settings["absent"]]
    is_measured = "surprise" in settings
    where = "\n\n".join((report.markdown([_machine(environment)]), _changed(outdated)))
    yield "machine", where if is_measured else _UNMEASURED
    yield "talker", report.markdown([_talker(settings)]) if is_measured else _UNMEASURED
    yield "floors", _markdown([_floor(rows, *one) for one in _FLOORS])
    yield "elsewhere", _markdown([_elsewhere(rows, what) for what, _, _ in _FLOORS])
    yield "served", _served(latency, f"`{served.COMMAND}`, with the default pair beside no draft in one run")
    yield "served otherwise", _served(methods, f"`{served.OTHERS}`")
    yield "recipes", report.markdown(list(_recipes()))
    headlines = [row for row in rows if row.streams > 1 and row.part != Part.NODES]
    titles = {row.title for row in headlines}
    filled = _markdown([cells(row) for row in rows if row.title in titles])
    yield "headlines", _pictured(filled, headlines, "methods", "accuracy")
    for part in Part:
        own = [row for row in rows if row.part == part]
        if part is Part.NODES:
            filled = "\n\n".join((_same_trees(settings["same_trees"]), _markdown([*map(_tree, own)])))
            yield part, _pictured(filled, own, "tolerance")
        elif part is not Part.PLAIN:
            waiting = [_waiting(one) for one in absent if one.part == part]
            filled = _markdown([*(cells(row) for row in own if row.streams == 1), *waiting])
            yield part, _pictured(filled, own, "length") if part is Part.LENGTH else filled
    yield "checks", _markdown(list(_checks(rows)))
    for table in TABLES:
        yield table.name, f"{table.source}; {table.remark}.\n\n{_markdown(list(_beside(rows, table)))}"


def _markdown(lines: Sequence[dict[str, str]]) -> str:
    return report.markdown(lines) if lines else _UNMEASURED


def _pictured(table: str, rows: Sequence[Row], *names: str) -> str:
    """With pictures after it, where there are rows to draw."""
    shown = (f"![{_PICTURES[name]}](results/speculation_{name}.png)" for name in names if rows)
    return "\n\n".join((table, *shown))


def cells(row: Row) -> dict[str, str]:
    """Every column of the issue."""
    heard = row.quality
    return {
        "streams": str(row.streams),
        "drafter": _drafter(row),
        "verifier": row.verifier,
        "options": _options(row),
        "preserves": row.preserves,
        "speed-up, offline": _speedup(row),
        "A": _number(row.committed_per_step),
        "rho (target + draft)": _rho(row),
        "A / rho": _number(row.expected),
        "word errors, %": f"{heard.word_errors:.2f}" if heard else _NONE,
        "less plain, points": _difference(row),
        "detectable, points": _detectable(row),
        "DNSMOS p808 (plain)": _beside_plain(heard.p808, heard.plain_p808) if heard else _NONE,
        "wrong endings, % (plain)": (
            _beside_plain(heard.wrong_endings, heard.plain_wrong_endings) if heard else _NONE
        ),
        "sentences": str(heard.sentences) if heard else _NONE,
        "remarks": _remarks(row),
    }


def _options(row: Row) -> str:
    options = [f"{name} {value:g}" for name, value in row.options.items()]
    options += [f"mean size {row.mean_size:.1f}"] if row.mean_size is not None else []
    return ", ".join(options) or _NONE


def _speedup(row: Row) -> str:
    if row.speedup is None:
        return _NONE
    return f"{row.speedup:.2f} ({row.speedup_low:.2f} to {row.speedup_high:.2f})"


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _rho(row: Row) -> str:
    if row.rho is None:
        return _NONE
    return f"{row.rho:.2f} ({row.rho_target:.2f} + {row.rho_draft:.2f})"


def _difference(row: Row) -> str:
    heard = row.quality
    return f"{heard.difference:+.2f} ({heard.low:+.2f} to {heard.high:+.2f})" if heard else _NONE


def _detectable(row: Row) -> str:
    heard = row.quality
    return f"{detectable(heard.low, heard.high):.2f}" if heard and heard.low < heard.high else _NONE


def _beside_plain(own: float, plain: float) -> str:
    return f"{own:.2f} ({plain:.2f})"


def _remarks(row: Row) -> str:
    remarks = [row.note] if row.note else []
    if not _is_shipped(row):
        remarks.append(f"not shipped: `{command(_needs(row))}`")
    heard = row.quality
    if heard and heard.same_tokens == heard.sentences and row.drafter != NO_DRAFT:
        remarks.append("all tokens are plain's, so its audio was not heard again")
    elif heard and row.preserves == Preserves.TOKENS and row.drafter != NO_DRAFT:
        remarks.append(f"TOKENS DIFFER in {heard.sentences - heard.same_tokens} sentences")
    if heard and heard.swapped is not None:
        remarks.append(f"{100 * heard.swapped:.1f} % of tokens swapped")
    if row.quality_options is not None:
        remarks.append("quality with " + ", ".join(f"{k} {v:g}" for k, v in row.quality_options.items()))
    return "; ".join(remarks) or _NONE


def _tree(row: Row) -> dict[str, str]:
    return {
        "draft": row.draft,
        "nodes": f"{row.options['nodes']:g}",
        "streams": str(row.streams),
        "speed-up, offline": _speedup(row),
        "A": _number(row.committed_per_step),
        "rho (target + draft)": _rho(row),
    }


def _talker(settings: Mapping[str, Any]) -> dict[str, str]:
    known = settings["surprise"]
    return {
        "bits per token, as drawn": f"{known['bits']:.2f}",
        "entropy at temperature 1, bits": f"{known['entropy_bits']:.2f}",
        "most likely token drawn": f"{100 * known['likeliest']:.0f} %",
        "temperature": f"{settings['temperature']:g}",
        "top-p": f"{settings['top_p']:g}",
        "precision": settings["precision"],
        "teacher's word errors": f"{settings['teacher_word_errors']:.2f} %",
    }


def _machine(environment: Mapping[str, Any]) -> dict[str, str]:
    names = {"cpu": "CPU", "cpu_path": "code path", "cores": "cores", "date": "date", "commit": "commit"}
    return {title: str(environment.get(name, "not noted")) for name, title in names.items()}


def _recipes() -> Iterator[dict[str, str]]:
    """How everything is trained, and by which command."""
    for name in (*DRAFTS, *TALKERS):
        yield {
            "name": named(name),
            "shipped": "yes" if name in SHIPPED else "no",
            "how it learns": told(name),
            "command": f"`{command(name)}`",
        }


def _changed(outdated: Sequence[str]) -> str:
    if not outdated:
        return "The files are those that lie here now."
    return f"Weights or trees have changed since, and rows are to be measured again: {', '.join(outdated)}."


def _drafter(row: Row) -> str:
    """And whose speech it drafts, if not the shipped talker's; and whose design it is, if not ours."""
    return named(row.draft) if row.talker == Talker.SHIPPED else f"{row.draft} ({row.talker})"


def named(draft: str) -> str:
    """With the paper whose own design it is, down to the loss."""
    return f"{draft} ({PAPERS[draft]})" if draft in PAPERS else draft


def _method(row: Row) -> Method:
    return Method(row.draft, row.verifier, row.options, Talker(row.talker))


def _needs(row: Row) -> str:
    return _method(row).needs


def _is_shipped(row: Row) -> bool:
    return _method(row).is_shipped


def _waiting(one: Absent) -> dict[str, str]:
    """A line for rows that nobody can measure yet."""
    line = dict.fromkeys(_COLUMNS, _NONE)
    told = f"not trained here: `{command(one.name)}`"
    return {**line, "drafter": named(one.name), "remarks": told}


def _same_trees(sizes: Sequence[int]) -> str:
    if not sizes:
        return f"`{MORE_HEADS}` has no tree here that is one of `{HEADS}`."
    listed = ", ".join(map(str, sizes))
    return (
        f"With {listed} nodes `{MORE_HEADS}` has the very trees of `{HEADS}`, whose heads are its first: the "
        "same drafts, so these rows are left out."
    )


def _floor(rows: Sequence[Row], what: str, floor: float | None, goal: float | None) -> dict[str, str]:
    """The fastest that is shipped."""
    limits = {
        name: _NONE if one is None else f"{one:.1f}" for name, one in (("floor", floor), ("goal", goal))
    }
    shipped = [row for row in rows if _is_shipped(row)]
    return {"what": what, **limits, **_fastest(rows, shipped, what)}


def _elsewhere(rows: Sequence[Row], what: str) -> dict[str, str]:
    """The fastest that is not."""
    return {"what": what, **_fastest(rows, [row for row in rows if not _is_shipped(row)], what)}


def _fastest(every: Sequence[Row], rows: Sequence[Row], what: str) -> dict[str, str]:
    found = {}
    for streams in sorted({row.streams for row in every}):
        fitting = [row for row in rows if row.streams == streams and row.speedup and _fits(row, what)]
        best = max(fitting, key=lambda row: row.speedup or 0.0, default=None)
        found[_streams(streams)] = f"{best.speedup:.2f} ({best.title})" if best else _NONE
    return found


def _streams(count: int) -> str:
    return f"{count} stream{'s' if count > 1 else ''}, offline"


def _served(latency: Mapping[str, Any] | None, command: str) -> str:
    lines = served.lines(latency)
    if latency is None or not lines:
        return f"Not measured yet: {command}."
    return "\n\n".join(report.markdown(one) for one in ([_machine(latency["environment"])], lines))


def _checks(rows: Sequence[Row]) -> Iterator[dict[str, str]]:
    """Rows without the check of the end of speech, each beside the same with it."""
    for row in rows:
        checked = {name: value for name, value in row.options.items() if name != "eos_top_k"}
        twins = [
            one
            for one in rows
            if (one.draft, one.verifier, one.options) == (row.draft, row.verifier, checked)
        ]
        if "eos_top_k" not in row.options or not twins or not (row.quality and twins[0].quality):
            continue
        count = min(len(row.quality.spoken), len(twins[0].quality.spoken))
        found = Ablation.of(row.quality.spoken[:count], twins[0].quality.spoken[:count])
        yield {
            "drafter": named(row.draft),
            "options": _options(row),
            "sentences": str(found.sentences),
            "tokens differ in": str(found.differ),
            "wrong endings, more (fewer)": f"{found.worse} ({found.better})",
            "word errors, points more": f"{found.difference:+.2f} ({found.low:+.2f} to {found.high:+.2f})",
            "needed to show anything": f"{fewest_of_one_kind()} sentences",
            "detectable, % of sentences spoilt": f"{100 * share_noticed(found.sentences):.1f}",
            "shows": found.verdict,
        }


def _fits(row: Row, what: str) -> bool:
    if row.part in (Part.NODES, Part.DEEPER, Part.LENGTH) or row.drafter == NO_DRAFT:
        return False
    if what.startswith("best"):
        return row.preserves in (Preserves.TOKENS, Preserves.DISTRIBUTION)
    drafter, _, verifier = what.partition(" + ")
    name, _, tolerance = verifier.partition(" ")
    is_tolerance = not tolerance or row.options.get("tolerance") == int(tolerance)
    return (row.drafter, row.verifier) == (drafter, name) and is_tolerance


def _beside(rows: Sequence[Row], table: SeedTable) -> Iterator[dict[str, str]]:
    for seed in table.rows:
        ours = nearest(rows, seed)
        yield {
            "there": seed.setting,
            "here": f"{ours.title} ({_options(ours)})" if ours else "not measured",
            "speed-up there": _number(seed.speedup),
            "speed-up here, offline": _number(ours.speedup if ours else None),
            "A there": _number(seed.committed),
            "A here": _number(ours.committed_per_step if ours else None),
            "word errors there, %": _there(seed),
            "word errors here, %": _here(ours),
        }


def _there(seed: SeedRow) -> str:
    if seed.word_errors is None:
        return _NONE
    if seed.plain_word_errors is None:
        return f"{seed.word_errors:.2f}"
    return f"{seed.word_errors:.2f} ({seed.word_errors - seed.plain_word_errors:+.2f})"


def _here(row: Row | None) -> str:
    if row is None or row.quality is None:
        return _NONE
    return f"{row.quality.word_errors:.2f} ({row.quality.difference:+.2f})"
