"""``python -m glowplug``."""

from glowplug.cli import main

if __name__ == "__main__":
    main()
