"""The option parser of verbs that must answer within a moment (`kit.cli.main.QUICK`): the standard library's."""

from __future__ import annotations

import argparse
from typing import NoReturn

from kit.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Raises UsageError for a wrong command line instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help")
