"""The cards of this machine: asked over NVML, described as plain data, judged without asking again."""
