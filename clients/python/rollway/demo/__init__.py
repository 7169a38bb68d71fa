"""The demo: a tiny policy learns to add, through the whole service, on a laptop's CPU."""
