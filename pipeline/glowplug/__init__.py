"""Build-time cache pipeline for torch.compile models: capture, prove, publish, fetch."""

__version__ = "0.1.0"
