"""Every way the kit can end other than well: one class per kind, each with its exit code.

`docs/exit-codes.md` is generated from this module. A verb raises one of these; `kit.cli.main`
prints it and leaves with its code. Nothing else decides an exit code.
"""

from __future__ import annotations

from typing import ClassVar


class KitError(Exception):
    """An unexpected fault of the kit itself; the base of every fatal class.

    `message` says what happened, `evidence` quotes what was seen (one item a line), `hint` is
    what to do next, best a command to type.
    """

    exit_code: ClassVar[int] = 1
    meaning: ClassVar[str] = "an unexpected fault of the kit itself"

    def __init__(self, message: str, *, hint: str | None = None, evidence: list[str] | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.evidence = evidence or []


class UsageError(KitError):
    """The command line or kit.yaml asks for something that cannot be."""

    exit_code = 2
    meaning = "wrong usage, or a fault in kit.yaml"


class GateError(KitError):
    """A check or gate failed: doctor, smoke, or the proof of a claim."""

    exit_code = 3
    meaning = "a check or a gate failed (doctor, smoke, verify of a claim)"


class EngineFailed(KitError):
    """The inference engine failed; a diagnosis was printed."""

    exit_code = 4
    meaning = "the engine failed; a diagnosis is printed"


class MissingError(KitError):
    """Something the work needs is not there: a container engine, a GPU, a file, space."""

    exit_code = 5
    meaning = "something needed is missing (container engine, GPU, file, permission, space)"


class IntegrityError(KitError):
    """A hash or a signature is not the one expected."""

    exit_code = 6
    meaning = "integrity: a hash or a signature is wrong"


class Interrupted(KitError):
    """A person or the system asked us to stop (Ctrl-C, SIGTERM)."""

    exit_code = 130
    meaning = "interrupted"


EXIT_GOOD = 0
FATAL_CLASSES: tuple[type[KitError], ...] = (
    KitError,
    UsageError,
    GateError,
    EngineFailed,
    MissingError,
    IntegrityError,
    Interrupted,
)
