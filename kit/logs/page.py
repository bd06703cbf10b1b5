"""docs/diagnose.md, from the rules: `make docs` writes it anew."""

from __future__ import annotations

import dataclasses
import inspect

from kit.logs.model import CATEGORIES, STAGES
from kit.logs.rules import Rule, load

_HEAD = """\
# kit diagnose

Generated from `kit/logs/rules/`; `make docs` writes it anew.

`kit diagnose LOG` names what died first in a vLLM log, why, and what to do. It reads any number of files (also
`.gz` and `.zst`, rotated ones in their order), standard input (`-`), `--container NAME`, `--compose FILE` and
`--journal UNIT`. Without a log it takes the last start of the deployment. With `--host` it also asks this host's
kernel and disks. Of several starts in one log the last decides; `--run N` and `--all-runs` show others.

Exit code: 0 healthy, 3 degraded, 4 failed. `--json` prints `kit.diagnosis/1`. Lines are numbered as `grep -n`
does, and as `cat` would number several files.

The first cause is found without any rule: by the earliest failure that no other process's failure explains. A rule
gives it its category, its meaning and what to do. Where no rule knows a failure the category is `unknown`, and the
line, the exception and the chain are still those of the first cause.

"""
_OWN = """\
## A rule of your own

`kit diagnose --rules FILE LOG` takes a TOML file with entries like this one; they are tried before the kit's own:

```toml
[[rule]]
id = "our-proxy"
category = "model-download"
match = ["ProxyError: *proxy.example.com"]
cause = "Our proxy lets nothing through to the hub."
remedy = ["export HTTPS_PROXY, or use the mirror on /srv/models"]
```

"""


def diagnose_page() -> str:
    """The text of docs/diagnose.md."""
    rules = load()
    return _HEAD + _categories(rules) + _OWN + _fields()


def _categories(rules: tuple[Rule, ...]) -> str:
    parts = ["## What it knows\n\n"]
    for category in CATEGORIES:
        parts.append(f"### {category}\n\n")
        for rule in (r for r in rules if r.category == category):
            parts.append(f"- **{rule.id}**: {_text(rule.cause)}\n")
            parts += [f"  - {_text(item)}\n" for item in rule.remedy]
        parts.append("\n")
    return "".join(parts)


def _fields() -> str:
    about = inspect.cleandoc(Rule.__doc__ or "").split("\n", 2)[2]
    names = ", ".join(f"`{f.name}`" for f in dataclasses.fields(Rule))
    return (
        f"Fields: {names}. In a pattern `*` stands for any characters; everything else is taken as it is.\n\n"
        f"{about}\n\n"
        f"Stages: {', '.join(f'`{s}`' for s in STAGES)}.\n"
    )


def _text(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")
