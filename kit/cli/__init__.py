"""The command line: one file per verb, thin: parse, call, print, exit code.

A verb's module holds either `command` (a function typer can read) or `app` (a typer app with
sub-commands), and imports what is heavy inside its functions, so that `kit --help` stays quick.
"""
