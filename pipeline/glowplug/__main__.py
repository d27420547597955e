"""``python -m glowplug`` and ``python glowplug.pyz``: written for any Python 3, since a model's image may have an old one."""

import os
import sys


def _give_up(why: str) -> None:
    """Start the command of ``glowplug run`` without a cache, as after any other trouble; end with an error elsewhere."""
    words = sys.argv[1:]
    place = words.index("--") if "--" in words else len(words)
    command = words[place + 1 :]
    if words[:1] != ["run"] or not command or "--strict" in words[:place]:
        sys.stderr.write("error: " + why + "\n")
        sys.exit(32)
    sys.stderr.write("warning: no cache: " + why + "; starting cold\n")
    sys.stderr.flush()
    os.execvp(command[0], command)  # noqa: S606 - a shell would change the words


if sys.version_info < (3, 10):  # noqa: UP036
    _give_up("glowplug needs Python 3.10 or newer, and " + sys.executable + " is " + sys.version.split()[0])

from glowplug.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
