"""A JSON object that a client sent."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from talkahead_gateway.refusal import Refusal


def read_json_object(sent: str | bytes, what: str, fields: str) -> dict[str, Any]:
    """Raises Refusal for what is not one.

    Args:
        sent: as it came.
        what: it is, in a word.
        fields: that are usual in it.
    """
    try:
        read = json.loads(sent, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the {what} cannot be read as JSON: {error}") from None
    if not isinstance(read, dict):
        raise Refusal.of_field(what, read, f"a JSON object with {fields}")
    return read


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
