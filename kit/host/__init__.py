"""Facts of this machine, read without changing it and without root; what root would add is said."""
