"""`python -m kit.reference`: record the hashes of what the code makes now, after a deliberate change.

The change counts only once the counters were seen on a real server (tests/docker).
"""

from __future__ import annotations

import json

from kit import files
from kit.reference.store import DIGESTS, all_models, contents
from kit.reference.tensors import sha256

made = {model: {name: sha256(data) for name, data in contents(model).items()} for model in all_models()}
files.write(DIGESTS, json.dumps(made, indent=2) + "\n")
