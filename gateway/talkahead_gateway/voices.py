"""OpenAI's names of voices as aliases of a server's own.

Pipecat's service lets no other names pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from talkahead_gateway.refusal import Refusal, one_of

_ALIASES = {
    "heart": ("alloy", "coral", "nova", "shimmer", "marin"),
    "alto": ("fable", "sage"),
    "tenor": ("ash", "ballad", "cedar", "echo", "onyx", "verse"),
}
"""The shipped voices, and the names of those that sound most like each: by pitch."""

OPENAI_VOICES = {alias: voice for voice, aliases in _ALIASES.items() for alias in aliases}
"""All of OpenAI's, with the voice that each stands for."""


def choose_voice(name: str, offered: Sequence[str]) -> str:
    """The server's voice of a name.

    Where a server has not the voice that an alias stands for, it is the server's first, its default.

    Args:
        name: a voice of the server, or one of OpenAI's.
        offered: the server's voices; none where it speaks like recordings alone.

    Raises:
        Refusal: nobody has that name.
    """
    if name in offered:
        return name
    if not offered:
        raise Refusal.of_field("voice", name, "one of a recording that was left at POST /v1/audio/voices")
    if name not in OPENAI_VOICES:
        raise Refusal.of_field("voice", name, one_of([*offered, *sorted(OPENAI_VOICES)]))
    meant = OPENAI_VOICES[name]
    return meant if meant in offered else offered[0]
