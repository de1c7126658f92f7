"""What the dashboard shows: five questions, each answered by three panels."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.observability.promql import CHOSEN, now, quantile, rate, ratio, share_up_to


@dataclass(frozen=True)
class Line:
    """One expression. Its legend may name labels, as `{{reason}}`."""

    legend: str
    expression: str


@dataclass(frozen=True)
class Panel:
    """Lines over time.

    Args:
        about: what is to be seen, a sentence or two.
        unit: of Grafana's.
        limit: where it becomes bad; drawn as a line.
        is_stacked: the lines are parts of a whole.
    """

    title: str
    about: str
    unit: str
    lines: tuple[Line, ...]
    limit: float | None = None
    is_stacked: bool = False


@dataclass(frozen=True)
class Question:
    """A row of the dashboard."""

    asks: str
    panels: tuple[Panel, ...]


def _quantiles(histogram: str) -> tuple[Line, ...]:
    return tuple(Line(f"p{100 * share:g}", quantile(share, histogram)) for share in (0.5, 0.95, 0.99))


_FAST = Question(
    "Is it fast?",
    (
        Panel(
            "First chunk",
            "From a request to its first audio, in the server: the network is not in it.",
            "s",
            _quantiles("talkahead_first_chunk_seconds"),
            limit=0.5,
        ),
        Panel(
            "Where a first chunk's time goes",
            "95th percentiles of stages; queue and prefill are in first_window. They do not add up to that "
            "of the whole.",
            "s",
            tuple(
                Line(stage, quantile(0.95, f"talkahead_{stage}_seconds"))
                for stage in ("frontend", "encoder", "queue", "prefill", "first_window", "vocoder")
            ),
        ),
        Panel(
            "Predicted first chunk",
            "What a replica expects for one more stream; the autoscaler may go by it.",
            "s",
            (Line("{{instance}}", now("talkahead_predicted_first_chunk_seconds", by="instance")),),
        ),
    ),
)

_SMOOTH = Question(
    "Is it smooth?",
    (
        Panel(
            "From one chunk to the next",
            "The longest of each stream. More than a chunk lasts is no harm while there is audio left: "
            "see beside.",
            "s",
            _quantiles("talkahead_longest_gap_seconds"),
        ),
        Panel(
            "Streams that ran dry, or almost",
            "The share of streams whose listener had no audio left when a chunk came, or less than 20 ms.",
            "percentunit",
            (
                Line("dry", share_up_to("0", "talkahead_least_slack_seconds")),
                Line("under 20 ms", share_up_to("0.02", "talkahead_least_slack_seconds")),
            ),
            limit=0.01,
        ),
        Panel(
            "Streams at risk, and late",
            "Streams whose listener has less than 100 ms left; and those that ended and had let their "
            "listener wait, and how long in all.",
            "short",
            (
                Line("at risk now", now("talkahead_at_risk_streams")),
                Line("late, a minute", f"60 * {rate('talkahead_late_streams_total')}"),
                Line("seconds waited, a minute", f"60 * {rate('talkahead_late_seconds_total')}"),
            ),
        ),
    ),
)

_FULL = Question(
    "Is it full?",
    (
        Panel(
            "Streams",
            "Open ones have not been heard to their end; some of them hold a slot, some wait for one.",
            "short",
            (
                Line("open", now("talkahead_open_streams")),
                Line("active", now("talkahead_active_streams")),
                Line("queued", now("talkahead_queued_streams")),
                Line("slots", now("talkahead_slots")),
            ),
        ),
        Panel(
            "Busy: talker and codec",
            "The share of time that each spends in steps, or in passes. At 1 it is the bottleneck.",
            "percentunit",
            (
                Line("talker {{instance}}", rate("talkahead_step_seconds_total", by="instance")),
                Line("codec {{instance}}", rate("talkahead_codec_seconds_total", by="instance")),
            ),
            limit=0.9,
        ),
        Panel(
            "Speech, and windows in flight",
            "Seconds of speech that listeners got a second; windows that the codec is still to decode.",
            "short",
            (
                Line("seconds of speech a second", rate("talkahead_audio_seconds_total")),
                Line("windows in flight", now("talkahead_windows_in_flight")),
            ),
        ),
    ),
)

_PAIR = "drafter, verifier"
_PAIR_LEGEND = "{{drafter}}, {{verifier}}"

_DRAFTING = Question(
    "Does drafting pay?",
    (
        Panel(
            "Tokens a step",
            "That a step of the talker adds to a stream: 1 without a draft. It pays where a step with a "
            "draft costs less than so many plain ones.",
            "short",
            (
                Line(
                    _PAIR_LEGEND,
                    ratio("talkahead_committed_tokens_total", "talkahead_target_steps_total", by=_PAIR),
                ),
            ),
        ),
        Panel(
            "Drafts accepted",
            "The share of drafted tokens that were spoken. A tree drafts several for each place, of which "
            "one at most can be.",
            "percentunit",
            (
                Line(
                    _PAIR_LEGEND,
                    ratio("talkahead_accepted_tokens_total", "talkahead_drafted_tokens_total", by=_PAIR),
                ),
            ),
        ),
        Panel(
            "A step's time, by streams and nodes",
            "The mean, streams and nodes rounded up to powers of two; and what a plain step of one stream "
            "took as it was measured at the start.",
            "s",
            (
                Line(
                    "{{streams}} streams, {{nodes}} nodes",
                    ratio("talkahead_step_seconds_total", "talkahead_steps_total", "streams, nodes"),
                ),
                Line(
                    "plain, alone, at the start",
                    f'avg (talkahead_step_cost_seconds{{{CHOSEN}, drafter="none", streams="1"}})',
                ),
            ),
        ),
    ),
)

_ENDED = "talkahead_streams_ended_total"

_FAILING = Question(
    "What fails?",
    (
        Panel(
            "Streams that ended, by reason",
            "A second. cancelled: its client asked; deadline: its deadline_ms had passed; vanished: its "
            "client left without a word; refused: there was no room.",
            "short",
            (Line("{{reason}}", rate(_ENDED, by="reason")),),
            is_stacked=True,
        ),
        Panel(
            "Requests that never came to the talker, by code",
            "A second. INVALID_ARGUMENT: the client's fault; UNAVAILABLE: the server drains; INTERNAL: ours.",
            "short",
            (Line("{{code}}", rate("talkahead_refused_requests_total", by="code")),),
            is_stacked=True,
        ),
        Panel(
            "Streams that failed",
            "The share of streams that ended with an error of the server's.",
            "percentunit",
            (
                Line(
                    "errors",
                    rate(_ENDED, where='reason="error"') + " / " + rate(_ENDED),
                ),
            ),
            limit=0.01,
        ),
    ),
)

QUESTIONS = (_FAST, _SMOOTH, _FULL, _DRAFTING, _FAILING)
