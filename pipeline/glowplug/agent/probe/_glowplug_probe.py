"""Writes down the compile work that really happens in this process, as it happens.

Three witnesses, because torch's hit counters alone prove nothing (a mega-cache reports hits while every kernel is
rebuilt): native compiler processes that this process starts, Triton compilations, and torch's own cache counters.
Each event is one JSON line, written at once with a single O_APPEND write to a file of this process, so that a kill or
``os._exit`` loses nothing. Nothing here may raise into the model.
"""

import collections
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import time

FOLDER_VARIABLE = "GLOWPLUG_PROBE_DIR"

# Counter groups of torch/_dynamo/utils.py whose changes are events; None takes every name of the group.
WATCHED_COUNTERS = {
    "inductor": ("fxgraph_cache_hit", "fxgraph_cache_miss", "fxgraph_cache_bypass", "fxgraph_cache_write_error"),
    "aot_autograd": (
        "autograd_cache_hit", "autograd_cache_miss", "autograd_cache_bypass", "autograd_cache_guard_miss",
    ),
    "frames": ("total", "ok"),
    "stats": ("unique_graphs",),
    "graph_break": None,
    "unimplemented": None,
}  # fmt: skip

_COMPILER = re.compile(
    r"(?:.+-)?(?:g\+\+|gcc|cc|c\+\+|clang|clang\+\+|icx|icpx|nvcc|ptxas|cicc|nvlink|fatbinary|hipcc|amdclang(?:\+\+)?|ninja)"
    r"(?:-\d+(?:\.\d+)*)?"
)
_LAUNCHERS = ("ccache", "sccache", "distcc", "env", "nice", "time", "exec")
_SHELLS = ("sh", "bash", "dash")
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
_BLINDING_FLAGS = re.compile(r"-[a-zA-Z]*[IES][a-zA-Z]*")


def classify(argv):
    """Say what a command line compiles.

    Returns ``(tool, role, output)`` with role ``build`` or ``query`` (a version, a search path, preprocessing: nothing
    is produced that a cache would hold), or ``None`` when it is no compiler.
    """
    words = [os.fsdecode(word) for word in argv]
    while words and (os.path.basename(words[0]) in _LAUNCHERS or re.match(r"[A-Za-z_]\w*=", words[0])):
        words = words[1:]
    if not words:
        return None
    tool = os.path.basename(words[0])
    if tool in _SHELLS and "-c" in words[1:-1]:
        return _classify_shell(words[words.index("-c") + 1])
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


def _classify_shell(script):
    found = None
    for command in re.split(r"&&|\|\||[;|\n]", script):
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        result = classify(words)
        if result and (found is None or result[1] == "build"):
            found = result
    return found


class Log:
    """Appends events to ``<folder>/<pid>.jsonl``; follows forks."""

    def __init__(self, folder):
        self._folder = folder
        self._fd = None
        self._serial = 0
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self):
        self._fd = None

    def write(self, event, **fields):
        """Write one event; give back its id. Never raises."""
        self._serial += 1
        event_id = "%d-%d" % (os.getpid(), self._serial)
        record = {"event": event, "id": event_id, "t": round(time.time(), 4)}
        record.update(fields)
        line = (json.dumps(record, default=str) + "\n").encode()
        for _ in range(2):  # the second time after the model closed our descriptor
            try:
                if self._fd is None:
                    path = os.path.join(self._folder, "%d.jsonl" % os.getpid())
                    self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                os.write(self._fd, line)
                break
            except OSError:
                self._fd = None
        return event_id


def _quiet(function):
    """Keep a fault of the probe out of the model."""

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception:
            return None

    return guarded


class ProcessWatch:
    """Sees the processes that this one starts, by every way the standard library has."""

    def __init__(self, log):
        self._log = log
        self._inside = threading.local()

    def install(self):
        """Wrap the standard library's ways to start a process."""
        self._wrap_popen()
        for name in ("system", "posix_spawn", "posix_spawnp", "execv", "execve"):
            if hasattr(os, name):
                self._wrap_os(name)

    @_quiet
    def _note(self, argv):
        if isinstance(argv, (str, bytes, os.PathLike)):
            argv = ["sh", "-c", os.fsdecode(argv)]
        argv = [os.fsdecode(word) for word in argv]
        self._note_blind(argv)
        found = classify(argv)
        if found is None:
            return None
        tool, role, output = found
        return self._log.write("tool", tool=tool, role=role, output=os.path.basename(output))

    def _note_blind(self, argv):
        """Note a Python that will not load the probe (-I, -E, -S): what it compiles stays unseen."""
        if re.fullmatch(r"python[\d.]*", os.path.basename(argv[0] if argv else "")) is None:
            return
        for word in argv[1:]:
            if not word.startswith("-") or word in ("-c", "-m"):
                return
            if _BLINDING_FLAGS.fullmatch(word):
                self._log.write("blind", argv=argv[:4])
                return

    @_quiet
    def _end(self, process):
        noted = getattr(process, "_glowplug", None)
        if noted and process.returncode is not None:
            process._glowplug = None
            event_id, started = noted
            self._log.write(
                "tool_end",
                of=event_id,
                seconds=round(time.monotonic() - started, 4),
                returncode=process.returncode,
            )

    def _wrap_popen(self):
        watch, popen = self, subprocess.Popen
        real_init, real_wait, real_poll = popen.__init__, popen.wait, popen.poll

        @functools.wraps(real_init)
        def init(process, args, *rest, **kwargs):
            started = time.monotonic()
            event_id = watch._note(args)
            watch._inside.popen = True
            try:
                real_init(process, args, *rest, **kwargs)
            finally:
                watch._inside.popen = False
            if event_id:
                process._glowplug = (event_id, started)

        @functools.wraps(real_wait)
        def wait(process, *args, **kwargs):
            try:
                return real_wait(process, *args, **kwargs)
            finally:
                watch._end(process)

        @functools.wraps(real_poll)
        def poll(process):
            try:
                return real_poll(process)
            finally:
                watch._end(process)

        popen.__init__, popen.wait, popen.poll = init, wait, poll

    def _wrap_os(self, name):
        watch, real = self, getattr(os, name)

        @functools.wraps(real)
        def call(first, *rest, **kwargs):
            if not getattr(watch._inside, "popen", False):  # subprocess itself may use posix_spawn
                watch._note(first if name == "system" else rest[0] if rest else [first])
            return real(first, *rest, **kwargs)

        setattr(os, name, call)


class _RecordingCounter(collections.Counter):
    """One group of torch's counters; each rise becomes an event."""

    group = None
    log = None

    def __setitem__(self, name, value):
        by = value - self.get(name, 0)
        super().__setitem__(name, value)
        watched = WATCHED_COUNTERS.get(self.group, ())
        if self.log is not None and by > 0 and (watched is None or name in watched):
            self.log.write("counter", group=self.group, name=str(name)[:300], by=by)


class _RecordingCounters(collections.defaultdict):
    """Stands in for ``torch._dynamo.utils.counters``, a defaultdict of Counters."""

    def __init__(self, log):
        super().__init__(collections.Counter)
        self._log = log

    def __missing__(self, group):
        self[group] = collections.Counter()
        return self[group]

    def __setitem__(self, group, counter):
        # torch also puts back a copy that it took (_inductor/pattern_matcher.py, lazy_init): it has to go on recording.
        if not isinstance(counter, _RecordingCounter) or counter.log is None:
            recording = _RecordingCounter(counter)
            recording.group, recording.log = group, self._log
            counter = recording
        super().__setitem__(group, counter)


def _watch_counters(module, log):
    module.counters = _RecordingCounters(log)


def _watch_triton(module, log):
    """Listen to Triton's compile(), which tells a hit from a compilation (triton/knobs.py, CompilationListener)."""
    before = module.compilation.listener

    def listener(*args, **kwargs):
        try:
            name = getattr(kwargs.get("src"), "name", "") or str(kwargs.get("metadata", {}).get("name", ""))
            log.write("triton", kernel=str(name)[:200], hit=bool(kwargs.get("cache_hit")))
        except Exception:
            pass
        if before is not None:
            before(*args, **kwargs)

    module.compilation.listener = listener


IMPORT_HOOKS = {"torch._dynamo.utils": _watch_counters, "triton.knobs": _watch_triton}


class ImportWatch:
    """Runs a hook right after a module of ``IMPORT_HOOKS`` has been executed, before anyone takes names from it."""

    def __init__(self, log):
        self._log = log

    def find_spec(self, name, path=None, target=None):
        """Find the module with the other finders, and wrap its loader."""
        hook = IMPORT_HOOKS.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._wrap(spec.loader, hook)
                return spec
        return None

    def _wrap(self, loader, hook):
        real, log = loader.exec_module, self._log

        def exec_module(module):
            real(module)
            try:
                hook(module, log)
            except Exception as error:
                log.write("probe_error", where=module.__name__, error=repr(error))

        loader.exec_module = exec_module


def start():
    """Start watching, when the environment names a folder to write to."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not os.path.isdir(folder):
        return
    log = Log(folder)
    log.write(
        "process", argv=[str(word) for word in getattr(sys, "orig_argv", sys.argv)[:4]], parent=os.getppid()
    )
    ProcessWatch(log).install()
    sys.meta_path.insert(0, ImportWatch(log))
