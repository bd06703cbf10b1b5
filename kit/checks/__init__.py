"""`kit doctor`: says before the load what will not work.

A check is a small class in the file of its family; its inputs are facts (`kit.checks.facts`), each gathered once and
only when a check asks for it.
"""
