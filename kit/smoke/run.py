"""Runs the smoke test against a served deployment: requests, counters before and after, verdict."""

from __future__ import annotations

import time
from collections.abc import Callable

from kit.config import Deployment
from kit.errors import EngineFailed
from kit.serve.api import Api, ApiError
from kit.smoke.counters import Counters, parse
from kit.smoke.judge import Answer, Expected, SmokeResult, judge
from kit.smoke.prompts import Prompt, body_of, prompts_of

SETTLE_S = 5.0  # counters are written just after a request's last piece is sent


def smoke(deployment: Deployment, api: Api, on_answer: Callable[[Answer], None] = lambda answer: None) -> SmokeResult:
    """Ask every prompt, one at a time and greedily, and judge the difference of the counters.

    Raises EngineFailed when the API cannot be reached, UsageError or MissingError for bad prompts.
    """
    prompts = prompts_of(deployment)
    k = deployment.kit.speculative.num_speculative_tokens if deployment.kit.speculative else 0
    before = read_counters(api)
    answers = []
    late = False
    for prompt in prompts:
        began = time.monotonic()
        unasked = Answer(prompt.name, "", 0, 0.0, 0.0, "not asked: the one before was not answered in time")
        answers.append(unasked if late else _ask(deployment, api, prompt))
        # who does not answer one keeps the next waiting as long
        late = late or (answers[-1].error is not None and time.monotonic() - began >= deployment.kit.smoke.timeout)
        on_answer(answers[-1])
    counted = _settled(api, before, answers)
    others = counted.requests - sum(a.error is None for a in answers) + before.running
    expected, texts = expectation(deployment, prompts), expected_texts(deployment, prompts)
    return judge(answers, counted, k, deployment.kit.smoke.gates, expected, texts, max(others, 0))


def read_counters(api: Api) -> Counters:
    """The counters now. Raises EngineFailed when /metrics does not answer as it should."""
    try:
        return parse(api.metrics())
    except (ApiError, ValueError) as error:
        raise EngineFailed(f"the engine's metrics cannot be read: {error}", hint="kit status; kit diagnose") from None


def expectation(deployment: Deployment, prompts: list[Prompt]) -> Expected | None:
    """What a reference target with a reference drafter must show; None for anything else."""
    drafter = deployment.kit.speculative.drafter.reference if deployment.kit.speculative else None
    tokens = [p.token for p in prompts if p.token is not None]
    if drafter is None or len(tokens) < len(prompts):
        return None
    from kit.reference import predict

    assert deployment.kit.speculative is not None
    k, length = deployment.kit.speculative.num_speculative_tokens, deployment.kit.smoke.max_tokens
    each = [predict(drafter, token, length, k) for token in tokens]
    return Expected(
        drafts=sum(p.num_drafts for p in each),
        draft_tokens=sum(p.num_draft_tokens for p in each),
        accepted_tokens=sum(p.num_accepted_tokens for p in each),
        per_position=tuple(sum(counts) for counts in zip(*(p.per_position for p in each), strict=True)),
    )


def expected_texts(deployment: Deployment, prompts: list[Prompt]) -> list[str] | None:
    """What a reference target answers to each prompt, whatever the drafter; None for a real model."""
    if deployment.kit.model.reference is None:
        return None
    from kit.reference import expected_text

    return [expected_text(p.token, deployment.kit.smoke.max_tokens) for p in prompts if p.token is not None]


def _ask(deployment: Deployment, api: Api, prompt: Prompt) -> Answer:
    path, body = body_of(deployment, prompt)
    try:
        done = api.complete(path, body, deployment.kit.smoke.timeout)
    except ApiError as error:
        return Answer(prompt.name, "", 0, 0.0, 0.0, str(error))
    return Answer(prompt.name, done.text, done.tokens, done.first_token_s, done.total_s)


def _settled(api: Api, before: Counters, answers: list[Answer]) -> Counters:
    """The difference once the engine has counted every token that we received, or after SETTLE_S."""
    good = [a for a in answers if a.error is None]
    tokens = sum(a.tokens for a in good)
    deadline = time.monotonic() + SETTLE_S
    while True:
        counted = read_counters(api).since(before)
        done = counted.generated_tokens >= tokens and counted.requests >= len(good)
        if done or time.monotonic() > deadline:
            return counted
        time.sleep(0.05)
