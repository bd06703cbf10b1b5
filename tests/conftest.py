"""What every test shares."""

from hypothesis import settings

# no deadlines: a test never judges time; derandomized: a run can be repeated
settings.register_profile("kit", deadline=None, derandomize=True)
settings.load_profile("kit")
