"""Reads command lines: which compile something, and which start a Python that the probe cannot enter."""

import os
import re
import shlex

_COMPILER = re.compile(
    r"(?:.+-)?(?:g\+\+|gcc|cc|c\+\+|clang|clang\+\+|icx|icpx|nvcc|ptxas(?:-blackwell)?|cicc|nvlink|fatbinary|hipcc"
    r"|amdclang(?:\+\+)?|ninja)(?:-\d+(?:\.\d+)*)?"
)
_LAUNCHERS = ("ccache", "sccache", "distcc", "env", "nice", "time", "exec")
_LAUNCHER_WORDS = re.compile(r"-.*|\d+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SHELLS = ("sh", "bash", "dash")
_SCRIPT_FLAG = re.compile(r"-[a-z]*c")
_QUERY_FLAGS = (
    "--version",
    "-dumpversion",
    "-dumpmachine",
    "-dumpspecs",
    "--help",
    "-###",
    "-E",
    "-fsyntax-only",
)
_INPUT_SUFFIXES = (
    ".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".h", ".hpp", ".s", ".S", ".ptx", ".ll", ".bc", ".o", ".a", ".so",
)  # fmt: skip
_PYTHON = re.compile(r"python[\d.]*")
# A cluster of flags without values, in which one ignores PYTHONPATH or the site module.
_BLINDING_FLAGS = re.compile(r"-[bBdhiOPqRsuvV?]*[IES][a-zA-Z]*")


def classify(argv):
    """Say what a command line compiles.

    Returns ``(tool, role, output)`` with role ``build`` or ``query`` (a version, a search path, preprocessing: nothing
    is produced that a cache would hold), or ``None`` when it is no compiler.
    """
    words = _without_launchers([os.fsdecode(word) for word in argv])
    if not words:
        return None
    tool = os.path.basename(words[0])
    if tool in _SHELLS:
        return _classify_script(words)
    if not _COMPILER.fullmatch(tool):
        return None
    rest = words[1:]
    output = rest[rest.index("-o") + 1] if "-o" in rest[:-1] else ""
    if tool.startswith("ninja"):
        return tool, "query" if "--version" in rest else "build", output
    asks = any(word in _QUERY_FLAGS or word.startswith("-print-") for word in rest)
    has_input = output or any(
        word.endswith(_INPUT_SUFFIXES) or word[:1] == "@" or word == "-" for word in rest
    )
    return tool, "build" if has_input and not asks else "query", output


def _without_launchers(words):
    """Leave out ``env``, ``nice`` and the like, with their flags and assignments."""
    launched = False
    while words:
        if os.path.basename(words[0]) in _LAUNCHERS:
            launched = True
        elif not (_ASSIGNMENT.fullmatch(words[0]) or (launched and _LAUNCHER_WORDS.fullmatch(words[0]))):
            break
        words = words[1:]
    return words


def _classify_script(words):
    """Find the first build, else the first query, among the commands of ``sh -c SCRIPT``."""
    place = next((n for n, word in enumerate(words) if _SCRIPT_FLAG.fullmatch(word)), len(words))
    found = None
    for command in re.split(r"&&|\|\||[;|\n]", words[place + 1] if place + 1 < len(words) else ""):
        try:
            parts = shlex.split(command)
        except ValueError:
            parts = command.split()
        result = classify(parts)
        if result and (found is None or (result[1] == "build" and found[1] != "build")):
            found = result
    return found


def is_blind(argv):
    """Say whether this starts a Python that does not load the probe (-I, -E or -S)."""
    words = _without_launchers(list(argv))
    if not words or not _PYTHON.fullmatch(os.path.basename(words[0])):
        return False
    rest = iter(words[1:])
    for word in rest:
        if word in ("-W", "-X"):
            next(rest, None)
        elif not word.startswith("-") or word in ("-c", "-m", "-"):
            return False
        elif _BLINDING_FLAGS.fullmatch(word):
            return True
    return False
