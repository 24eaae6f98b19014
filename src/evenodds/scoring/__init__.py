"""What a fitted model does to scores, as flat arrays; it knows nothing of fitting, tallies or logs."""
