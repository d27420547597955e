"""Layers in and out: a cache root becomes deterministic archives, and these, verified, a cache root."""
