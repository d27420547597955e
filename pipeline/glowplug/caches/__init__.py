"""Which files make up a compile cache. A new kind is one module, and one line in ``table.py``."""
