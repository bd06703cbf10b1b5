"""The served API over HTTP: health, models, completions, metrics. An edge; it decides nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests

from kit.config import Deployment
from kit.errors import MissingError
from kit.parse import json_of


class ApiError(Exception):
    """The API did not answer as it should: the text says which call and what came back."""


@dataclass(frozen=True)
class Completion:
    """One finished request. Times in seconds from sending; `tokens` as the server counts them."""

    text: str
    tokens: int
    first_token_s: float
    total_s: float


class Api:
    """A served deployment as a client sees it. Never goes through a proxy; the key is never shown."""

    def __init__(self, base: str, key: str | None = None):
        self.base = base
        self._session = requests.Session()
        self._session.trust_env = False
        if key:
            self._session.headers["Authorization"] = f"Bearer {key}"

    def get(self, path: str, timeout: float = 5) -> requests.Response:
        """GET a path. Raises ApiError when there is no answer or it is not 200."""
        try:
            reply = self._session.get(self.base + path, timeout=timeout)
        except requests.RequestException as error:
            raise ApiError(f"GET {path}: {_plain(error)}") from None
        if reply.status_code != 200:
            raise ApiError(f"GET {path}: status {reply.status_code}: {reply.text[:200]}")
        return reply

    def post(self, path: str, body: dict[str, Any], timeout: float = 60) -> Any:
        """POST JSON and return the JSON of the answer. Raises ApiError."""
        try:
            reply = self._session.post(self.base + path, json=body, timeout=timeout)
            if reply.status_code != 200:
                raise ApiError(f"POST {path}: status {reply.status_code}: {reply.text[:300]}")
            return reply.json()
        except requests.RequestException as error:  # no JSON is one of them too
            raise ApiError(f"POST {path}: {_plain(error)}") from None

    def models(self) -> list[str]:
        """The names under which models are served."""
        try:
            return [str(model["id"]) for model in self.get("/v1/models").json()["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ApiError(f"GET /v1/models: not the expected JSON ({error})") from None

    def metrics(self) -> str:
        """The text of /metrics."""
        return self.get("/metrics", timeout=10).text

    def complete(self, path: str, body: dict[str, Any], timeout: float) -> Completion:
        """Send a request as a stream and read it to its end. Raises ApiError.

        `timeout` bounds each wait for data and, checked at each piece, the whole request.
        """
        body = body | {"stream": True, "stream_options": {"include_usage": True}}
        started = time.monotonic()
        first, text, tokens = 0.0, [], None
        try:
            with self._session.post(self.base + path, json=body, stream=True, timeout=(5, timeout)) as reply:
                if reply.status_code != 200:
                    raise ApiError(f"POST {path}: status {reply.status_code}: {reply.text[:300]}")
                for event in _events(reply):
                    if event.get("error"):
                        raise ApiError(f"POST {path}: {json.dumps(event['error'])[:300]}")
                    if time.monotonic() - started > timeout:
                        raise ApiError(f"POST {path}: not finished after {timeout:g} s")
                    piece = _piece(event)
                    if piece is not None:
                        first = first or time.monotonic() - started
                        text.append(piece)
                    if event.get("usage"):
                        tokens = int(event["usage"]["completion_tokens"])
        except requests.RequestException as error:
            raise ApiError(f"POST {path}: {_plain(error)}") from None
        if tokens is None:
            raise ApiError(f"POST {path}: the stream ended before the server said how many tokens it made")
        return Completion("".join(text), tokens, first, time.monotonic() - started)


def api_of(deployment: Deployment) -> Api:
    """The client of a deployment on this machine. Raises MissingError when the key cannot be read."""
    server = deployment.kit.server
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    base = f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"
    return Api(base, read_key(deployment))


def read_key(deployment: Deployment) -> str | None:
    """The API key of a deployment, or None when it has none. Raises MissingError."""
    if deployment.kit.server.api_key_file is None:
        return None
    path = deployment.path(deployment.kit.server.api_key_file)
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise MissingError(
            f"cannot read the API key file {path}: {error}",
            hint=f"install -m 600 /dev/null {path} && openssl rand -hex 32 > {path}",
        ) from None
    if not key or not key.isprintable() or " " in key:
        raise MissingError(
            f"the API key file {path} holds no usable key (one word of printable characters)",
            hint=f"openssl rand -hex 32 > {path}",
        )
    return key


def _events(reply: requests.Response) -> Iterator[dict[str, Any]]:
    for line in reply.iter_lines():
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            try:
                yield json_of(line[6:])
            except ValueError:
                raise ApiError(f"the stream holds what is no JSON: {line[:100]!r}") from None


def _piece(event: dict[str, Any]) -> str | None:
    """The text that an event adds, of a completion or a chat; None when it adds no token."""
    for choice in event.get("choices", ()):
        if choice.get("text") is not None:
            return str(choice["text"])
        delta = choice.get("delta") or {}
        parts = [delta.get("reasoning_content"), delta.get("reasoning"), delta.get("content")]
        if any(parts):
            return "".join(part for part in parts if part)
    return None


def _plain(error: requests.RequestException) -> str:
    """The innermost reason: "connection refused" rather than a stack of wrappers."""
    reason: BaseException = error
    while True:
        told = (getattr(reason, "reason", None), *reason.args)
        inner = next((part for part in told if isinstance(part, BaseException)), None)
        if inner is None:
            break
        reason = inner
    text = getattr(reason, "strerror", None) or str(reason)
    return text.split(": ", 1)[-1] if text.startswith("HTTPConnection(") else text
