"""Rows as tables: all of them as text, and those of the page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from talkahead.speculation.contracts import Preserves

from instruments import report
from perf.speculation.bench import Row
from perf.speculation.methods import NO_DRAFT, Talker
from perf.speculation.plan import NODES_TOLERANCE, Part
from perf.speculation.seeds import TABLES, SeedRow, SeedTable, nearest

_NONE = "-"
_FLOORS: tuple[tuple[Talker, str, float, float], ...] = (
    (Talker.SHIPPED, f"heads + tolerance {NODES_TOLERANCE}", 2.0, 3.2),
    (Talker.TUNED, f"heads + tolerance {NODES_TOLERANCE}", 2.0, 3.2),
    (Talker.SHIPPED, "draft_lm + groups", 1.4, 1.7),
    (Talker.SHIPPED, "mtp + topk", 1.5, 2.0),
    (Talker.SHIPPED, "best that keeps tokens or distribution", 1.5, 2.2),
)
"""Floor and goal of DESIGN, section 5, in the same words as `_fits`."""


def everything(rows: Sequence[Row]) -> str:
    """One line a row, for a terminal."""
    return report.table([cells(row) for row in rows])


def of_page(rows: Sequence[Row], settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each table of the page by its mark; one that has no rows says so."""
    yield "talker", report.markdown([_talker(settings)])
    yield "floors", _markdown([_floor(rows, *one) for one in _FLOORS])
    headlines = [row for row in rows if row.streams > 1 and row.part != Part.NODES]
    titles = {row.title for row in headlines}
    yield "headlines", _markdown([cells(row) for row in rows if row.title in titles])
    for part in Part:
        if part is Part.NODES:
            yield part, _markdown([_tree(row) for row in rows if row.part == part])
        elif part not in (Part.PLAIN,):
            yield part, _markdown([cells(row) for row in rows if row.part == part and row.streams == 1])
    for table in TABLES:
        yield table.name, f"{table.source}; {table.remark}.\n\n{_markdown(list(_beside(rows, table)))}"


def _markdown(lines: Sequence[dict[str, str]]) -> str:
    return report.markdown(lines) if lines else "Not measured yet."


def cells(row: Row) -> dict[str, str]:
    """Every column of the issue."""
    heard = row.quality
    return {
        "streams": str(row.streams),
        "drafter": _drafter(row),
        "verifier": row.verifier,
        "options": _options(row),
        "preserves": row.preserves,
        "speed-up": _speedup(row),
        "A": _number(row.committed_per_step),
        "rho (target + draft)": _rho(row),
        "A / rho": _number(row.expected),
        "word errors, %": f"{heard.word_errors:.2f}" if heard else _NONE,
        "less plain, points": _difference(row),
        "MCD, dB (plain)": _beside_plain(heard.mel_cepstral_db, heard.plain_mel_cepstral_db)
        if heard
        else _NONE,
        "wrong endings, % (plain)": (
            _beside_plain(heard.wrong_endings, heard.plain_wrong_endings) if heard else _NONE
        ),
        "sentences": str(heard.sentences) if heard else _NONE,
        "remarks": _remarks(row),
    }


def _options(row: Row) -> str:
    options = [f"{name} {value:g}" for name, value in row.options.items()]
    options += [f"mean size {row.mean_size:.1f}"] if row.mean_size is not None else []
    options += [f"by {row.likeness}"] if row.part == Part.MEL else []
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


def _beside_plain(own: float, plain: float) -> str:
    return f"{own:.2f} ({plain:.2f})"


def _remarks(row: Row) -> str:
    remarks = [row.note] if row.note else []
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
        "speed-up": _speedup(row),
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


def _drafter(row: Row) -> str:
    """And whose speech it drafts, if not the shipped talker's."""
    return row.draft if row.talker == Talker.SHIPPED else f"{row.draft} ({row.talker})"


def _floor(rows: Sequence[Row], talker: Talker, what: str, floor: float, goal: float) -> dict[str, str]:
    base = "" if talker is Talker.SHIPPED else f" on the {talker} base"
    found = {"what": f"{what}{base}", "floor": f"{floor:.1f}", "goal": f"{goal:.1f}"}
    known = [row for row in rows if row.talker == talker and row.speedup and _fits(row, what)]
    for streams in sorted({row.streams for row in rows}):
        fitting = [row for row in known if row.streams == streams]
        best = max(fitting, key=lambda row: row.speedup or 0.0, default=None)
        found[f"{streams} streams"] = f"{best.speedup:.2f} ({best.title})" if best else _NONE
    return found


def _fits(row: Row, what: str) -> bool:
    if row.part in (Part.NODES, Part.LENGTH, Part.MEL) or row.drafter == NO_DRAFT:
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
            "speed-up here": _number(ours.speedup if ours else None),
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
