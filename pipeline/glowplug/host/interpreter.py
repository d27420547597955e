"""Runs in the model's interpreter too, as ``python -c <this text>``: Python 3.9, standard library only."""

import os
import sys


def libc() -> str:
    """Return ``glibc-2.36`` or ``musl-1.2.5``; empty where the C library does not say."""
    try:
        # Much cheaper than platform.libc_ver, which reads through the interpreter's own executable.
        known = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        known = None
    if not known:
        import platform  # noqa: PLC0415

        known = " ".join(platform.libc_ver())
    name, _, version = known.strip().partition(" ")
    return f"{name}-{version}" if version else name


def describe() -> "dict[str, str | list[str]]":
    """Return what only this interpreter knows of itself."""
    return {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "libc": libc(),
        "os": sys.platform,
        "machine": os.uname().machine,
        "paths": list(sys.path),
    }


if __name__ == "__main__":
    import json

    # Last, and on a line of its own: a site hook may have printed something already.
    sys.stdout.write("\n" + json.dumps(describe()) + "\n")
