"""JSON and YAML from outside: whatever is wrong with the text, it is one ValueError."""

from __future__ import annotations

import json
from typing import Any


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text (bytes as UTF-8). Raises ValueError, also for one nested without end."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested without end") from None


def yaml_of(text: str | bytes) -> Any:
    """The value of a YAML text. Raises ValueError, also for one nested without end or with an impossible date."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError("; ".join(line.strip() for line in str(error).splitlines()[:3])) from None
    except RecursionError:
        raise ValueError("nested without end") from None
    except (TypeError, AttributeError, OverflowError, LookupError) as error:  # the constructors' own, on odd tags
        raise ValueError(str(error)) from None
