"""Phonemes for NeuTTS: ours in espeak's alphabet, and espeak's own where they are asked for."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from talkahead.errors import TalkaheadError
from talkahead.families.frontend_config import FrontendConfig
from talkahead.families.neutts.espeak import Espeak
from talkahead.families.neutts.family import neutts_spelling
from talkahead.families.neutts.ipa import Ipa
from talkahead.text.symbols import CONSONANTS, STRESSES, VOWELS


@pytest.fixture(scope="module")
def ipa() -> Ipa:
    return Ipa()


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("Hello, lemons!", "həlˈoʊ, lˈɛmənz!"),
        ("The city of water.", "ðə sˈɪɾi ʌv wˈɔːɾɚ."),
        ("A party?", "ɐ pˈɑːɹɾi?"),
        ("Is it over", "ɪz ɪt ˈoʊvɚ"),
        ("Better thirst", "bˈɛɾɚ θˈɜːst"),
        ("A guitar", "ɐ ɡɪtˈɑːɹ"),
        ("Three churches measured joy", "θɹˈiː tʃˈɜːtʃəz mˈɛʒɚd dʒˈɔɪ"),
        ("say [lemon](/AE2 D AH0/) now", "sˈeɪ ˌædə nˈaʊ"),
    ],
)
def test_ours_are_written_as_espeak_writes(text: str, phonemes: str, ipa: Ipa) -> None:
    assert ipa.spell(text) == phonemes


def test_each_of_our_phonemes_has_letters(ipa: Ipa) -> None:
    for phoneme in (*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in STRESSES)):
        assert ipa.spell(f"[lemon](/{phoneme} B/)")[:-1]


class _Backend:
    """With the options of NeuTTS' reference code alone."""

    def __init__(self, **options: object) -> None:
        assert options == {
            "language": "en-us",
            "preserve_punctuation": True,
            "with_stress": True,
            "language_switch": "remove-flags",
            "words_mismatch": "ignore",
        }

    def phonemize(self, texts: list[str]) -> list[str]:
        return [f" {text.lower()}  !" for text in texts]


def test_espeak_is_used_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonemizer", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "phonemizer.backend", SimpleNamespace(EspeakBackend=_Backend))
    spelling = neutts_spelling(None, FrontendConfig(phonemes="espeak"))  # type: ignore[arg-type]
    assert spelling.spell("Hello  there") == "hello there !"
    assert isinstance(neutts_spelling(None, FrontendConfig(phonemes="own")), Ipa)  # type: ignore[arg-type]


def test_espeak_that_is_not_here_is_told_how_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "phonemizer", None)
    monkeypatch.setitem(sys.modules, "phonemizer.backend", None)
    with pytest.raises(TalkaheadError, match="apt-get install espeak-ng; pip install phonemizer"):
        Espeak()
