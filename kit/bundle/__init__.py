"""What operators get: one signed, deterministic bundle of everything a deployment needs except the model's weights."""
