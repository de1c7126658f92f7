"""`make compose-check`: whether docker-compose.yml is what the Compose Specification allows, field by field.

Parsed and validated by `compose_spec`; no docker reads it here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml
from compose_spec import PyCompose

FILE = Path(__file__).parents[1] / "docker-compose.yml"


def services(text: str) -> list[str]:
    """The services of a file of compose. Raises ValueError that names field, value and what is allowed."""
    # Merged keys (`<<`) are of YAML, and the validator does not know them; JSON is YAML without.
    plain = json.dumps(yaml.safe_load(text))
    return list(PyCompose.from_yaml(plain).service_names())


def main() -> int:
    """Runs the command and returns its exit status."""
    try:
        found = services(FILE.read_text(encoding="utf-8"))
    except ValueError as error:
        print(f"error: {FILE}: {error}", file=sys.stderr)
        return 1
    print(f"{FILE}: {', '.join(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
