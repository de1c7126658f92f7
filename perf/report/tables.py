"""Reports as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from instruments.report import markdown
from perf.level import figures, lower_by
from perf.limit import Counted
from perf.report.pictures import PEERS, Report, of_first_configuration

_ON_THE_WAY = ("frontend", "encoder", "queue", "prefill", "first_window", "emit", "vocoder")
"""Stages that a first chunk passes, in this order."""


def by_streams(report: Report) -> str:
    """For the head of the README: playing streams, and what they and closed ones get."""
    cells = of_first_configuration(report)
    playing, closed = (
        {one["streams"]: one for one in cells if one["mode"] == mode} for mode in ("playing", "closed")
    )
    rows = [
        _row("first chunk, p50 / p95", [_both(one["first_chunk_ms"]) for one in playing.values()]),
        _row("first audible sample, p50 / p95", [_both(one["first_audible_ms"]) for one in playing.values()]),
        _row("streams that ran dry", [f"{one['ran_dry']} of {one['spoken']}" for one in playing.values()]),
        _row(
            "first chunk, closed loop (each asks again at once), p50 / p95",
            [_both(closed[count]["first_chunk_ms"]) for count in playing],
        ),
        _row(
            "first chunk, all at the same moment, p50 / p95",
            [_both(closed[count]["burst_ms"]) for count in playing],
        ),
        _row(
            "audio seconds per second, closed loop",
            [_shown(closed[count]["audio_s_per_s"], ".0f") for count in playing],
        ),
    ]
    if all(closed[count]["gain"] for count in playing):
        speeds = [_shown(closed[count]["gain"]["talker_speed"]["value"], ".2f", "x") for count in playing]
        rows.append(_row("the talker's speed by drafting ahead, same tokens, closed loop", speeds))
    header = _row("playing streams", [str(count) for count in playing])
    return "\n".join([header, _row("---", ["---"] * len(playing)), *rows])


def first_chunk_path(report: Report) -> str:
    """What the first chunk of one stream that has the server to itself waits for."""
    [alone] = [
        one for one in of_first_configuration(report) if (one["mode"], one["streams"]) == ("closed", 1)
    ]
    stages = {one["name"]: one for one in alone["stages"]}
    passed = [stages[name] for name in _ON_THE_WAY if name in stages]
    rows = [_stage(one["name"], one["p50_ms"], one["p95_ms"]) for one in passed]
    first = alone["first_chunk_ms"]
    return markdown([*rows, _stage("first chunk, as the client sees it", first["p50"], first["p95"])])


def limit(report: Report) -> str:
    """What counted operations allow."""
    [counted] = report["results"]
    return markdown(Counted(**counted).rows(**report["settings"]))


def peers(report: Report) -> str:
    """Where the published figures stand."""
    return markdown(
        [
            {
                "": name,
                "first chunk by streams": ", ".join(f"{n}: {ms:g} ms" for n, ms in one["ms"].items()),
                "published in": one["source"],
            }
            for name, one in PEERS.items()
        ]
    )


def by_rates(report: Report) -> str:
    return markdown([_level(one) for one in report["results"]])


def streamed_and_whole(report: Report) -> str:
    """The same, and how much lower streaming's first chunks are than the twin's."""
    levels = report["results"]
    lower = [
        f"At {streamed['load']['rate']:.3g} requests a second "
        f"{lower_by(streamed['first_chunk_ms'], twin['first_chunk_ms'])}."
        for streamed, twin in zip(levels[::2], levels[1::2], strict=True)
    ]
    return "\n\n".join([by_rates(report), *lower])


def by_lengths(report: Report) -> str:
    """As Du et al. 2021, table 1, has them: means by the length of the texts."""
    return markdown(
        [
            {
                "texts": one["load"]["length"],
                "requests/s": f"{one['load']['rate']:g}",
                "speech": f"{mean(figures(one, 'audio_s')):.2f} s",
                "first chunk": f"{mean(figures(one, 'first_chunk_ms')):.1f} ms",
                "last chunk": f"{mean(figures(one, 'total_ms')):.0f} ms",
                "real-time factor": f"{mean(figures(one, 'real_time_factor')):.3f}",
                "ran dry": f"{one['ran_dry']} of {one['spoken']}",
            }
            for one in report["results"]
        ]
    )


def by_perf_analyzer(report: Report) -> str:
    """Each model under each load; of speech, our own generator's first chunk beside it."""
    return markdown(
        [
            {
                "model": one["model"],
                "load": f"{one['value']:g} {'at once' if one['mode'] == 'concurrency' else 'a second'}",
                "asked/s": f"{one['asked_per_s']:.1f}",
                "requests/s": f"{one['requests_per_s']:.1f}",
                "first response, p50 / p95": _both(one["first_ms"]),
                "last response, p50 / p95": _both(one["last_ms"]),
                "first chunk as we see it, p50": _shown(one["own_first_ms"], ".0f", " ms"),
                "of theirs": _shown(
                    one["own_first_ms"] and one["own_first_ms"] / one["first_ms"]["p50"], ".2f"
                ),
            }
            for one in report["results"]
        ]
    )


def _level(one: dict[str, Any]) -> dict[str, str]:
    return {
        "": one["configuration"],
        "requests/s": f"{one['load']['rate']:.3g}",
        "asked": str(one["asked"]),
        "refused": str(one["refused"]),
        "first chunk, p50 / p95": _both(one["first_chunk_ms"]),
        "last chunk, p50": _shown(one["last_chunk_ms"]["p50"], ".0f", " ms"),
        "ran dry": str(one["ran_dry"]),
        "audio s/s": _shown(one["audio_s_per_s"], ".1f"),
        "prompts, windows a pass": _batches(one.get("requests_a_pass", {})),
    }


def _batches(means: dict[str, float]) -> str:
    return ", ".join(_shown(means.get(model), ".2f") for model in ("encoder", "vocoder"))


def _stage(name: str, p50: float | None, p95: float | None) -> dict[str, str]:
    shown = {name: _shown(value, ".1f", " ms") for name, value in (("p50", p50), ("p95", p95))}
    return {"stage": name.replace("_", " "), **shown}


def _both(spread: dict[str, Any]) -> str:
    return f"{spread['p50']:.0f} / {spread['p95']:.0f} ms" if spread["count"] else _shown(None, "")


def _shown(value: float | None, form: str, unit: str = "") -> str:
    """What nothing was measured of, which is null in a report, is a dash."""
    return "-" if value is None else f"{value:{form}}{unit}"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {' | '.join([name, *cells])} |"
