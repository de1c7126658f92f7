"""The key of model control: made once, kept from others, refused where it is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from talkahead.errors import TalkaheadError
from talkahead.launcher.model_control import ModelControl


def test_a_key_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = ModelControl.read_or_made(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert made == ModelControl.read_or_made(path) == ModelControl.read(path)
    assert made != ModelControl.read_or_made(tmp_path / "other")
    assert made.key not in repr(made)


@pytest.mark.parametrize(
    "content", ["", "short", "sixteen letters=1", "two-keys-here-in\nlines-of-their-own"]
)
def test_what_is_no_key_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(content)
    with pytest.raises(
        TalkaheadError, match=r"--model-control .*key does not hold a key: at least 16 letters"
    ):
        ModelControl.read_or_made(path)


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TalkaheadError, match=r"--model-control .*gone cannot be read"):
        ModelControl.read(tmp_path / "gone")
    with pytest.raises(TalkaheadError, match=r"--model-control .*gone/key cannot be written"):
        ModelControl.read_or_made(tmp_path / "gone" / "key")
