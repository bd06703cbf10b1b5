"""What was shown on the engineer's machine: the newest smoke test, its start and the doctor's answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.bundle.leaks import cleaned
from kit.errors import GateError, UsageError
from kit.parse import json_of
from kit.support.redact import Rule

Report = dict[str, Any]


@dataclass(frozen=True)
class Qualification:
    """The reports, as the verbs wrote them; None for one that is not there."""

    smoke: Report | None
    run: Report | None
    doctor: Report | None

    @property
    def image(self) -> str | None:
        """The image that was tested."""
        return str(self.run.get("image")) if self.run else None

    def why_not(self, image: str) -> str | None:
        """Why this does not qualify `image`; None when it does."""
        if self.smoke is None:
            return "there is no smoke report: kit up makes one"
        if self.smoke.get("verdict") != "pass":
            return "the newest smoke test failed"
        if self.image != image:
            return f"the newest smoke test was of image {self.image or 'unknown'}, not {image}"
        if self.doctor is None:
            return "there is no doctor's report: kit doctor makes one"
        return "the doctor's verdict is fail" if self.doctor.get("verdict") == "fail" else None

    def cleaned(self, own: Sequence[Rule]) -> Qualification:
        """The same without secrets and names of the machine that it was made on (`kit.bundle.leaks`)."""

        def clean(report: Report | None, name: str) -> Report | None:
            return report and json_of(cleaned(json.dumps(report, ensure_ascii=False, indent=1), own, name))

        return Qualification(clean(self.smoke, "smoke"), clean(self.run, "run"), clean(self.doctor, "doctor"))

    def files(self) -> dict[str, bytes]:
        """The reports as files of a bundle."""
        reports = {"smoke": self.smoke, "run": self.run, "doctor": self.doctor}
        return {
            f"reports/{name}.json": (json.dumps(report, indent=1) + "\n").encode()
            for name, report in reports.items()
            if report is not None
        }


def newest(state: Path) -> Qualification:
    """The newest smoke result of a deployment, the start that it belongs to, and the newest doctor's report.

    `state` is the deployment's folder of results (.kit/NAME).
    """
    runs = sorted((p for p in (state / "runs").glob("*") if p.is_dir() and not p.is_symlink()), reverse=True)
    tested = next((number for number, run in enumerate(runs) if (run / "smoke.json").is_file()), None)
    if tested is None:
        return Qualification(None, None, read(state / "doctor" / "doctor.json"))
    started = next((run for run in runs[tested:] if (run / "run.json").is_file()), None)
    return Qualification(
        smoke=read(runs[tested] / "smoke.json"),
        run=read(started / "run.json") if started else None,
        doctor=read(state / "doctor" / "doctor.json"),
    )


def demand(found: Qualification, image: str) -> None:
    """Raise GateError unless this very image passed."""
    if (why := found.why_not(image)) is not None:
        raise GateError(
            f"this image is not qualified: {why}",
            hint="kit doctor && kit up, then pack again; or --unqualified, which the bundle will say of itself",
        )


def read(path: Path) -> Report | None:
    """A report; None where there is none. Raises UsageError for a file that is none."""
    try:
        value = json_of(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="kit up writes a new one") from None
    return value if isinstance(value, dict) else None
