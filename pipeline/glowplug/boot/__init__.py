"""The run side: what happens in a container before the model's server starts.

It imports nothing of the build side, and no docker, oras, requests, yaml or torch: tests/contract holds it to that.
"""
