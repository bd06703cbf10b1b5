"""The drafter's files, against the target and this vLLM."""
