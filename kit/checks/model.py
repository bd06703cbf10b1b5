"""The target's files, and whether they fit."""
