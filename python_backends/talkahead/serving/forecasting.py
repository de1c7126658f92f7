"""What drafting is worth on this machine: measured by the first server that starts, and kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from talkahead.backbone.reach_choice import reach_of, settle_reach, take_reach
from talkahead.config import ModelConfig, RequestOptions
from talkahead.drafting.acceptance import Acceptance, read_acceptance
from talkahead.engine.draft_forecast import DraftForecast
from talkahead.engine.step_costs import StepCosts
from talkahead.engine.step_timer import StepTimer
from talkahead.generation_config import read_sampling
from talkahead.serving.cost_store import Conditions, read_costs, write_costs
from talkahead.serving.draft_report import cost_lines
from talkahead.serving.startup_notes import note
from talkahead.serving.talker_parts import TalkerParts


def forecast_of(parts: TalkerParts, config: ModelConfig) -> DraftForecast | None:
    """Settles how far ahead weights are fetched, too: as it was when costs were measured that were kept.

    None where nothing was counted of any draft, so that costs alone would decide nothing; or where costs
    are not known, and the parameter `measure_steps` keeps a talker that joins a busy server from measuring.

    Measuring takes a few seconds, and is shown.
    """
    counted = read_acceptance(config.folder, parts.methods.offer.drafters)
    if counted:
        costs = _costs_of(parts, config, counted)
        return None if costs is None else DraftForecast(costs, counted)
    if config.may_measure:
        settle_reach(parts.backbone)
    return None


def _costs_of(parts: TalkerParts, config: ModelConfig, counted: Mapping[str, Acceptance]) -> StepCosts | None:
    """Those that were kept, or else measured; None where neither may be."""
    conditions = Conditions.of(config, parts.backbone)
    if (kept := read_costs(conditions)) is not None:
        take_reach(parts.backbone, kept.reach)
        return kept
    if not config.may_measure:
        note("talker: what its steps cost was not measured here, so it drafts where it is asked to")
        return None
    settle_reach(parts.backbone)
    costs = _measure(parts, counted, RequestOptions.from_parameters({}, read_sampling(config.folder)))
    write_costs(conditions, costs)
    if not costs.is_steady:
        note("talker: the machine was busy meanwhile, so a start an hour from now measures again")
    return costs


def _measure(parts: TalkerParts, counted: Mapping[str, Acceptance], options: RequestOptions) -> StepCosts:
    note("talker: measuring what its steps cost on this machine (once; half a minute without AVX-512)")
    began = time.perf_counter()
    timer = StepTimer(parts.backbone, parts.methods, counted, step=parts.step, options=options)
    costs = replace(timer.measure(), reach=reach_of(parts.backbone))
    for line in (f"talker: measured in {time.perf_counter() - began:.1f} s", *cost_lines(costs)):
        note(line)
    return costs
