"""Rewards: checks of finished answers. A checker that fails or hangs gives no value; it never gives 0."""
