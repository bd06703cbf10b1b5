"""What every test shares."""

import os

from hypothesis import settings

# Matrices here are tiny: more BLAS threads than one only get in each other's way when tests run in parallel.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# no deadlines: a test never judges time; derandomized: a run can be repeated
settings.register_profile("kit", deadline=None, derandomize=True)
settings.load_profile("kit")
