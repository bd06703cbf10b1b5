"""The memory plan: what each rank will hold, and what that allows. `from_deployment` is its edge, the rest is pure."""
