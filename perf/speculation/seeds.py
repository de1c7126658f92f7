"""The figures of three papers, each beside the row of ours that comes nearest to it.

000: Li et al. 2025 (VADUSA). 001: Yanuka et al. 2025 (PCG). 003: Tian et al. 2025 (Llasa+). Their word errors
are of other recognisers on natural speech: what compares is how they change from plain decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from instruments.recipes import TUNED
from perf.speculation.bench import Row
from perf.speculation.plan import (
    BLIND_HEADS,
    BLIND_TOP_KS,
    CARELESS_TOP_K,
    DRAFT_LM,
    HEADLINE_BIAS,
    HEADLINE_SIZE,
    Part,
)

Pick = Callable[[Row], bool]


@dataclass(frozen=True)
class SeedRow:
    """One line of a paper's table.

    Args:
        speedup: tokens per second over plain decoding's.
        committed: tokens accepted of a step.
        word_errors, plain_word_errors: in percent; the latter the paper's own without speculation.
        ours: tells our row; `size` is the mean size of groups, of which the nearest is taken.
    """

    setting: str
    speedup: float | None
    committed: float | None
    word_errors: float | None
    plain_word_errors: float | None
    ours: Pick
    size: float | None = None


@dataclass(frozen=True)
class SeedTable:
    """A table or figure; `remark` says what is not the same in ours."""

    name: str
    source: str
    remark: str
    rows: tuple[SeedRow, ...]


def nearest(rows: Sequence[Row], wanted: SeedRow) -> Row | None:
    """Our row for one stream."""
    fitting = [row for row in rows if row.streams == 1 and wanted.ours(row)]
    if wanted.size is not None:
        fitting.sort(key=lambda row: abs((row.mean_size or 1.0) - wanted.size))  # type: ignore[operator]
    return fitting[0] if fitting else None


def _heads(tau: int, talker: str = "shipped", draft: str = "heads") -> Pick:
    return lambda row: (
        (row.draft, row.verifier, row.talker) == (draft, "tolerance", talker)
        and row.part != Part.NODES
        and row.options["tolerance"] == tau
    )


def _topk(draft: str, k: int, eos_k: int | None = None) -> Pick:
    return lambda row: (
        (row.draft, row.verifier) == (draft, "topk")
        and row.options["top_k_verify"] == k
        and row.options.get("eos_top_k") == eos_k
    )


def _draft_lm(verifier: str, part: Part) -> Pick:
    return lambda row: (row.draft, row.verifier, row.part) == (DRAFT_LM, verifier, part)


def _biased(bias: float) -> Pick:
    return lambda row: row.verifier == "biased" and row.options["bias"] == bias


def _accepts_all(draft: str) -> Pick:
    return lambda row: (row.draft, row.part, "eos_top_k" in row.options) == (draft, Part.ABLATION, False)


def _swapped(row: Row) -> bool:
    return row.part == Part.SWAP


def _unchecked(draft: str) -> Pick:
    return _topk(draft, CARELESS_TOP_K, CARELESS_TOP_K)


_ABLATIONS: tuple[
    tuple[str, tuple[float, float, float, float], Callable[[str], Pick], tuple[str, str]], ...
] = (
    ("1 module, no verification", (2.0, 2.0, 11.471, 3.220), _accepts_all, ("mtp-1-blind", "mtp-1")),
    ("2 modules, no verification", (3.0, 3.0, 14.372, 3.220), _accepts_all, ("mtp-blind", "mtp")),
    ("1 module, no check of the end", (1.403, 1.403, 3.319, 3.220), _unchecked, ("mtp-1-blind", "mtp-1")),
    ("2 modules, no check of the end", (1.481, 1.481, 3.422, 3.220), _unchecked, ("mtp-blind", "mtp")),
)
"""Of theirs, whose design the first of ours has."""
_K_100, _K_500, _K_1000 = BLIND_TOP_KS
TABLES = (
    SeedTable(
        "000 I",
        "Li et al. 2025, table I (HuBERT + k-means 2048, LibriTTS)",
        "theirs are blind and taught by plain cross-entropy, as `heads-blind`; ours are told the path, share "
        "one output layer and learn the talker's distribution too",
        (
            SeedRow("4 heads", 2.37, 2.85, 7.21, 7.61, _heads(1, draft=BLIND_HEADS)),
            SeedRow("4 heads (beside ours)", 2.37, 2.85, 7.21, 7.61, _heads(1)),
            SeedRow("4 heads, tuned base (beside ours)", 2.43, 3.00, 6.56, 7.29, _heads(1, TUNED)),
            SeedRow("4 heads, tau 3", 2.89, 3.80, 5.94, 7.61, _heads(3, draft=BLIND_HEADS)),
            SeedRow("4 heads, tau 3 (beside ours)", 2.89, 3.80, 5.94, 7.61, _heads(3)),
            SeedRow("4 heads, tau 3, tuned base (beside ours)", 2.94, 3.87, 5.71, 7.29, _heads(3, TUNED)),
        ),
    ),
    SeedTable(
        "000 II",
        "Li et al. 2025, table II (4 heads, tau 3, tuned, by kind of token)",
        "ours is one codec's codebook of 15,360: between their lines 1 and 2; the heads are ours",
        (
            SeedRow("HuBERT 2048", 2.94, 3.87, 5.71, 7.29, _heads(3, TUNED)),
            SeedRow("wav2vec 2.0 16k", 1.30, 1.89, 3.48, 5.71, _heads(3, TUNED)),
            SeedRow("EnCodec 1024", 1.85, 1.96, 3.17, 3.91, _heads(3, TUNED)),
        ),
    ),
    SeedTable(
        "000 III",
        "Li et al. 2025, table III (4 heads, tau 3, LibriHeavy, 50,000 hours)",
        "plain word errors are not given there",
        (
            SeedRow("4 heads, tau 3", 2.94, 3.88, 2.65, None, _heads(3, draft=BLIND_HEADS)),
            SeedRow("4 heads, tau 3 (beside ours)", 2.94, 3.88, 2.65, None, _heads(3)),
            SeedRow("4 heads, tau 3, tuned base (beside ours)", 2.95, 3.88, 2.85, None, _heads(3, TUNED)),
        ),
    ),
    SeedTable(
        "001 1",
        "Yanuka et al. 2025, table 1 (LLaSA-8B, 65,536 codes, a draft of 3 layers of 32)",
        "their plain target is not in the table: speculative decoding, which is exact, stands for it; "
        "ours of the draft alone still takes every fourth token from the target",
        (
            SeedRow("draft alone", 5.2, None, 52.8, 11.1, _accepts_all(DRAFT_LM)),
            SeedRow("exact (ratio)", 0.98, None, 11.1, 11.1, _draft_lm("ratio", Part.DRAFT_LM)),
            SeedRow("bias 0.3", 1.4, None, 18.5, 11.1, _biased(HEADLINE_BIAS)),
            SeedRow("groups", 1.4, None, 13.8, 11.1, _draft_lm("groups", Part.GROUPS), HEADLINE_SIZE),
        ),
    ),
    SeedTable(
        "001 2",
        "Yanuka et al. 2025, table 2 (tokens swapped within groups, nothing speculated)",
        "the paper's word errors rise by 0.4 and 0.7 points (given as +0.004 and +0.007); its "
        "speed-ups are of groups of that size",
        (
            SeedRow("mean size 4.5, 75.0 % swapped", 1.18, None, 0.4, 0.0, _swapped, 4.5),
            SeedRow("mean size 10.3, 91.4 % swapped", 1.23, None, 0.7, 0.0, _swapped, 10.3),
        ),
    ),
    SeedTable(
        "003 I",
        "Tian et al. 2025, table I (Llasa-1B, 65,536 codes)",
        "their speed-up ratios are shares of drafts accepted, 28.92 + 12.76 %: 1.42 tokens a step, which is "
        "called the speed-up there. k counts as a share of the vocabulary: 100, 500, 1000 of 65,536 are 23, "
        f"117, 234 of ours, and rows of {', '.join(map(str, BLIND_TOP_KS))} stand beside them. Theirs are "
        "blind but for the last two lines (DPSK there), whose loss ours have not: ours learn the talker's "
        "distribution too, and later modules count less",
        (
            SeedRow("1 module, k 100", 1.278, 1.278, 2.642, 3.220, _topk("mtp-1-blind", _K_100)),
            SeedRow("1 module, k 500", 1.398, 1.398, 2.745, 3.220, _topk("mtp-1-blind", _K_500)),
            SeedRow("1 module, k 1000", 1.460, 1.460, 3.080, 3.220, _topk("mtp-1-blind", _K_1000)),
            SeedRow("2 modules, k 100", 1.417, 1.417, 2.499, 3.220, _topk("mtp-blind", _K_100)),
            SeedRow("2 modules, k 500", 1.479, 1.479, 3.070, 3.220, _topk("mtp-blind", _K_500)),
            SeedRow("1 module that sees tokens, k 500", 1.426, 1.426, 4.485, 3.220, _topk("mtp-1", _K_500)),
            SeedRow("2 modules that see tokens, k 500", 1.493, 1.493, 4.728, 3.220, _topk("mtp", _K_500)),
        ),
    ),
    SeedTable(
        "003 III",
        "Tian et al. 2025, table III (ablation of the verification)",
        "as in 003 I; without the check of the end of speech, its k is that of all tokens, and what ours "
        "show of it stands in the table of checks",
        tuple(
            SeedRow(f"{setting}{beside}", *figures, ours(draft))
            for setting, figures, ours, drafts in _ABLATIONS
            for beside, draft in zip(("", " (beside ours)"), drafts, strict=True)
        ),
    ),
)
