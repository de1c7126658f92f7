"""`talkahead drafts train` on a talker of a few weights: what is learned, what is kept, what is refused."""

from __future__ import annotations

import json
import queue
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from periodic_talker import TEXTS, periodic_talker, write_repository
from talkahead.draft_training import draft_run
from talkahead.draft_training.draft_order import DraftOrder
from talkahead.draft_training.draft_run import DraftRun, carry_out
from talkahead.draft_training.texts import Split
from talkahead.drafting.acceptance import Acceptance
from talkahead.drafting.draft_artifact import WEIGHTS, load_drafter
from talkahead.drafting.draft_files import draft_folder
from talkahead.drafting.draft_pool import DraftPool
from talkahead.drafting.offer import read_offer
from talkahead.errors import TalkaheadError
from talkahead.launcher import command
from talkahead.manifest import Manifest, sha256

pytestmark = pytest.mark.filterwarnings("ignore:.*lr_scheduler")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_repository(tmp_path_factory.mktemp("periodic"))


@pytest.fixture
def order(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DraftOrder:
    """So little of everything that it takes seconds."""
    repository = tmp_path / "repository"
    shutil.copytree(template, repository)
    monkeypatch.setattr(draft_run, "NODES", (2, 4, 8))
    monkeypatch.setattr(draft_run, "_TIMED", 2)
    return DraftOrder(
        repository, repository / "texts.txt", minutes=0.2, heads=3, block_size=64, steps=60, rate=0.01
    )


def carried_out(*orders: DraftOrder) -> list[str]:
    said: list[str] = []
    carry_out(orders, said.append)
    return said


def left_over(order: DraftOrder) -> list[str]:
    """Of what was not finished."""
    return sorted(path.name for path in order.work_folder.parent.iterdir())


def learned(order: DraftOrder) -> Acceptance:
    found = Acceptance.read(order.destination)
    assert found is not None
    return found


def test_heads_learn_what_the_talker_says_and_can_be_served(order: DraftOrder) -> None:
    said = carried_out(order)
    offer = read_offer(order.talker)
    assert offer.names == ("none", "heads") and offer.drafters["heads"].nodes == (2, 4, 8)
    load_drafter(order.destination, order.talker, DraftPool(2, 64))
    manifest = Manifest.read(order.destination)
    manifest.verify(order.destination)
    assert manifest.licence == "CC-BY-4.0" and manifest.target == sha256(order.talker / WEIGHTS)
    assert {"config.json", "trees.json", "acceptance.json", WEIGHTS} == set(manifest.files)
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in order.destination.iterdir())
    assert left_over(order) == []
    assert said[-1].startswith("heads+match: ") and "x plain decoding here (" in said[-1]
    # Untrained heads guess the root once more, which never follows itself.
    assert learned(order).of(4) > 2.2


def test_heads_that_did_not_learn_follow_nothing(order: DraftOrder) -> None:
    carried_out(replace(order, steps=1, rate=1e-9))
    assert learned(order).of(4) < 1.3


def test_a_draft_learns_on_for_a_talker_that_has_changed(order: DraftOrder, tmp_path: Path) -> None:
    carried_out(order)
    begun = Path(shutil.move(order.destination, tmp_path / "begun"))
    config = json.loads((begun / "config.json").read_text())
    (begun / "config.json").write_text(json.dumps({**config, "target": "0" * 64}))
    again = replace(order, steps=1, rate=1e-9, start=begun)
    carried_out(again)
    assert learned(again).of(4) > 2.2
    assert read_offer(order.talker).names == ("none", "heads")


def test_drafts_that_an_earlier_talker_had_are_left_out_of_what_is_measured(order: DraftOrder) -> None:
    """Or none of several could be trained first."""
    carried_out(order)
    config = json.loads((order.destination / "config.json").read_text())
    (order.destination / "config.json").write_text(json.dumps({**config, "target": "0" * 64}))
    said = carried_out(replace(order, drafter="mtp", heads=2))
    assert "gain: without heads, which an earlier talker had: train anew" in said
    carried_out(replace(order, replaces=True))
    assert read_offer(order.talker).names == ("none", "heads", "mtp")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"start": Path("nowhere")}, "nowhere/config.json is missing"),
        ({"drafter": "mtp"}, "is a draft of heads, not of mtp"),
    ],
)
def test_what_a_draft_cannot_begin_from_is_refused(
    order: DraftOrder, changes: dict[str, object], says: str, tmp_path: Path
) -> None:
    carried_out(order)
    begun = Path(shutil.move(order.destination, tmp_path / "begun"))
    with pytest.raises(TalkaheadError, match=says):
        carried_out(replace(order, **{"start": begun, **changes}))


class Stopped(BaseException):
    """As a signal would stop it."""


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets so many files come to their places from now on, and stops before the next one does."""
    rename = Path.rename

    def after(count: int) -> None:
        left = iter(range(count))

        def counted(path: Path, target: Path) -> Path:
            if next(left, None) is None:
                raise Stopped
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", counted)

    return after


def test_stopped_anywhere_it_goes_on_to_the_same_draft(
    order: DraftOrder, template: Path, tmp_path: Path, stop_after: Callable[[int], None]
) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(template, whole)
    undisturbed = replace(order, repository=whole)
    carried_out(undisturbed)

    num_stops = 0
    while not order.destination.exists():
        assert not list(order.talker.glob("drafts/*"))
        stop_after(2)  # the recipe, and one more
        with suppress(Stopped):
            carried_out(order)
        num_stops += 1
    assert num_stops > 6
    for name in (WEIGHTS, "trees.json", "acceptance.json", "config.json"):
        assert (order.destination / name).read_bytes() == (undisturbed.destination / name).read_bytes(), name


def test_a_draft_that_is_there_gives_way_only_if_it_shall(order: DraftOrder) -> None:
    short = replace(order, steps=20)
    carried_out(short)
    before = sha256(order.destination / WEIGHTS)
    with pytest.raises(TalkaheadError, match="heads is there already; --replace"):
        DraftRun(order, print)
    carried_out(replace(order, replaces=True))
    assert sha256(order.destination / WEIGHTS) != before
    Manifest.read(order.destination).verify(order.destination)


def test_one_work_folder_is_of_one_recipe(order: DraftOrder) -> None:
    DraftRun(order, print).begin()
    DraftRun(order, print).begin()
    with pytest.raises(TalkaheadError, match=r"was begun otherwise: steps 60, now 90; .* another --work"):
        DraftRun(replace(order, steps=90), print).begin()
    DraftRun(replace(order, steps=90, work=order.repository / "elsewhere"), print).begin()
    periodic_talker(sharpness=0.7).save(order.talker)
    with pytest.raises(TalkaheadError, match=r"was begun otherwise: talker \w{12}, now \w{12}; "):
        DraftRun(order, print).begin()


def test_several_drafts_learn_from_what_is_said_once(order: DraftOrder) -> None:
    """Also one that reads prompts, beside one that does not."""
    both = [replace(order, drafter=drafter, heads=2, block_size=None) for drafter in ("heads", "draft_lm")]
    said = carried_out(*both)
    assert read_offer(order.talker).names == ("none", "heads", "draft_lm")
    assert [learned(one).of(2) > 1.5 for one in both] == [True, True]
    assert sum(line.startswith("speech (train)") for line in said) == 1
    assert left_over(order) == []
    alone = replace(both[0], replaces=True)
    together = sha256(alone.destination / WEIGHTS)
    carried_out(alone)
    assert sha256(alone.destination / WEIGHTS) == together


def test_nothing_has_begun_where_one_of_several_is_refused(order: DraftOrder) -> None:
    short = replace(order, steps=1, heads=None, block_size=None)
    carried_out(replace(short, drafter="mtp"))
    with pytest.raises(TalkaheadError, match="mtp is there already; --replace"):
        carried_out(short, replace(short, drafter="mtp"))
    assert left_over(order) == []


def test_speech_goes_with_the_last_draft_that_learns_from_it(order: DraftOrder) -> None:
    said: list[str] = []
    heads, mtp = (
        DraftRun(replace(order, drafter=name, heads=2, block_size=None), said.append)
        for name in ("heads", "mtp")
    )
    heads.begin()
    mtp.begin()
    heads.make()
    heads.put()
    assert left_over(order) == ["mtp", heads.speech.path.name]
    said.clear()
    mtp.make()
    assert not any(line.startswith("speech") for line in said)
    mtp.put()
    assert left_over(order) == []


def test_who_wants_the_same_speech_at_the_same_time_waits_for_it(order: DraftOrder) -> None:
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    first, second = DraftRun(order, print), DraftRun(replace(order, drafter="mtp", block_size=None), said.put)
    with ThreadPoolExecutor(1) as pool:
        with first.speech.alone(print):
            waiting = pool.submit(second.speak)
            assert "waits for it" in said.get(timeout=10)
            assert second.speech.store(Split.TRAIN).num_shards == 0
        waiting.result()
    assert first.speech.store(Split.TRAIN).num_shards > 0


@pytest.mark.parametrize("drafter", ["mtp", "draft_lm"])
def test_chains_learn_too(order: DraftOrder, drafter: str) -> None:
    order = replace(order, drafter=drafter, heads=2, block_size=None, steps=120)
    carried_out(order)
    assert read_offer(order.talker).names == ("none", drafter)
    assert learned(order).of(3) > 1.7
    Manifest.read(order.destination).verify(order.destination)


def test_heads_of_large_vocabularies_share_the_talkers_tables(
    order: DraftOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    carried_out(order)
    own = (order.destination / WEIGHTS).stat().st_size
    monkeypatch.setattr(draft_run, "_LARGE", 1)
    carried_out(replace(order, replaces=True, steps=200))
    assert (order.destination / WEIGHTS).stat().st_size < own - 2 * 32 * 32
    assert learned(order).of(4) > 2.2


@pytest.mark.parametrize("drafter", ["heads", "mtp"])
def test_a_narrow_output_is_served_and_follows_as_far(
    order: DraftOrder, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_run, "_RANK", 16)
    carried_out(replace(order, drafter=drafter, block_size=None))
    assert json.loads((order.destination.parent / drafter / "config.json").read_text())["output_rank"] == 16
    found = Acceptance.read(order.destination.parent / drafter)
    assert found is not None and found.of(4) > 2.2


def test_a_blind_draft_in_a_folder_of_its_own_is_served_by_nobody(order: DraftOrder) -> None:
    blind = replace(order, is_blind=True, folder="heads-blind")
    carried_out(blind)
    assert blind.destination.name == "heads-blind" and read_offer(order.talker).names == ("none",)
    manifest = Manifest.read(blind.destination)
    assert manifest.command == "talkahead drafts train --drafter heads --heads 3 --blind --folder heads-blind"
    assert json.loads((blind.destination / "config.json").read_text())["sees_tokens"] is False


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"repository": Path("nowhere")}, "holds no talker"),
        ({"texts": Path("nowhere.txt")}, "nowhere.txt cannot be read"),
        ({"device": "cuda"}, "torch does not see it here; allowed: cpu"),
        ({"drafter": "draft_lm", "heads": 9}, "--heads 9: .* allowed: 1 to 2"),
        ({"drafter": "draft_lm", "is_blind": True}, "--blind: heads and modules may be"),
        ({"folder": "mtp"}, "--folder mtp: there a draft of mtp is served, none of heads"),
    ],
)
def test_what_cannot_begin_is_told(
    order: DraftOrder, change: dict[str, Path | str | int], sentence: str
) -> None:
    with pytest.raises(TalkaheadError, match=sentence):
        carried_out(replace(order, **change))  # type: ignore[arg-type]


def test_too_few_texts_are_told(order: DraftOrder) -> None:
    order.texts.write_text("\n".join((*TEXTS[:9], TEXTS[0], "")))
    with pytest.raises(TalkaheadError, match="has 9 different texts; allowed: at least 10"):
        DraftRun(order, print)


def test_the_command_reads_its_options(order: DraftOrder, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["drafts", "train", "--repository", str(order.repository), "--texts", str(order.texts)]
    short = ["--minutes", "0.1", "--steps", "20", "--heads", "2", "--block-size", "64", "--device", "cpu"]
    assert command.main([*words, *short]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("drafts: heads+match: ")
    assert draft_folder(order.talker, "heads").is_dir()
    assert command.main([*words, *short]) == 1
    assert "--replace" in capsys.readouterr().err
    assert command.main([*words, *short, "--drafter", "heads", "mtp"]) == 1
    assert "--heads is for one draft, not for heads, mtp together" in capsys.readouterr().err
