#!/usr/bin/env python3
# Rendered by kit 0.1.0 for deployment kimi-k2-5 (values 966f9e6ff9bd2427). Edits here are lost: change kit.yaml, then `kit render`.
"""Health check of the engine: the API answers, and lists the model under its served name.

Exit 0 when it does. Otherwise one line that says why not, which `docker inspect` keeps.
"""

import json
import pathlib
import sys
import urllib.request

PORT = 8000
HOST = '127.0.0.1'
SERVED_NAME = 'kimi-k2.5'
KEY_FILE = pathlib.Path("/run/secrets/api_key")


def main() -> str | None:
    """The reason why the engine is not healthy, or None."""
    headers = {"Authorization": "Bearer " + KEY_FILE.read_text().strip()} if KEY_FILE.exists() else {}
    base = f"http://[{HOST}]:{PORT}" if ":" in HOST else f"http://{HOST}:{PORT}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for path in ("/health", "/v1/models"):
        try:
            with opener.open(urllib.request.Request(base + path, headers=headers), timeout=8) as reply:
                body = reply.read()
        except OSError as error:
            return f"{base}{path}: {error}"
    names = [model["id"] for model in json.loads(body)["data"]]
    return None if SERVED_NAME in names else f"{base} serves {names}, not {SERVED_NAME!r}"


reason = main()
if reason:
    print(reason)
    sys.exit(1)
