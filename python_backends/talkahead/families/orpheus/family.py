"""Orpheus: a voice's name and text as it is written."""

from __future__ import annotations

from talkahead.families.orpheus.prompt import OrpheusPrompt
from talkahead.families.spelling import AsWritten
from talkahead.families.token_family import TokenFamily

FAMILY = TokenFamily("orpheus", lambda tokens, _: OrpheusPrompt(tokens), lambda tokens, _: AsWritten(tokens))
