"""Writes down the compile work that really happens in this process, as it happens.

Three witnesses, because torch's hit counters alone prove nothing (a mega-cache reports hits while every kernel is
rebuilt): native compiler processes that this process starts, Triton compilations, and torch's own cache counters.
Each event is one JSON line, written at once with a single O_APPEND write to a file of this process, so that a kill or
``os._exit`` loses nothing. Nothing here may raise into the model.
"""

import functools
import itertools
import json
import os
import subprocess
import sys
import threading
import time

from _glowplug_commands import classify, is_blind
from _glowplug_counters import RecordingCounters

FOLDER_VARIABLE = "GLOWPLUG_PROBE_DIR"
_HERE = os.path.dirname(os.path.abspath(__file__))


class Log:
    """Appends events to ``<folder>/<pid>.jsonl``."""

    def __init__(self, folder):
        self.folder = folder
        self._serials = itertools.count(1)
        # A program that this process becomes (exec) has its pid, and counts from one again.
        self._epoch = time.time_ns()

    def write(self, event, **fields):
        """Write one event; give back its id. Never raises."""
        event_id = "%d-%x-%d" % (os.getpid(), self._epoch, next(self._serials))
        try:
            record = {"event": event, "id": event_id, "t": round(time.time(), 4)}
            record.update(fields)
            line = (json.dumps(record, default=str) + "\n").encode()
            path = os.path.join(self.folder, "%d.jsonl" % os.getpid())
            # Opened for every event: a model that closes all descriptors may own the number of ours by then.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                os.write(fd, line)
            finally:
                os.close(fd)
        except Exception:
            pass
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
        argv = [os.fsdecode(word) for word in argv]
        if is_blind(argv):
            self._log.write("blind", argv=argv[:4])
        found = classify(argv)
        if found is None:
            return None
        tool, role, output = found
        return self._log.write("tool", tool=tool, role=role, output=os.path.basename(output))

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

    def _with_probe(self, env):
        """Return the environment of a child, with the probe in it.

        Torch makes PYTHONPATH anew from sys.path for its compile workers (torch/_inductor/utils.py,
        python_subprocess_env), and there the probe's folder is missing on purpose.
        """
        try:
            path = env.get("PYTHONPATH", "")
            if _HERE not in path.split(os.pathsep) or not env.get(FOLDER_VARIABLE):
                path = os.pathsep.join([_HERE, path] if path else [_HERE])
                return {**env, "PYTHONPATH": path, FOLDER_VARIABLE: self._log.folder}
        except Exception:  # an environment of an unusual kind is the real function's to judge
            pass
        return env

    def _wrap_popen(self):
        watch, popen = self, subprocess.Popen
        real_init, real_wait, real_poll = popen.__init__, popen.wait, popen.poll

        @functools.wraps(real_init)
        def init(process, args, *rest, **kwargs):
            started = time.monotonic()
            if not isinstance(args, (str, bytes, os.PathLike)):
                args = list(args)  # an iterator can be read only once
            if len(rest) < _ENV_PLACE:
                env = watch._with_probe(os.environ if kwargs.get("env") is None else kwargs["env"])
                if env is not os.environ:
                    kwargs["env"] = env
            watch._inside.popen = True
            try:
                real_init(process, args, *rest, **kwargs)
            finally:
                watch._inside.popen = False
            # It runs: a command that is not there never compiled anything.
            event_id = watch._note(_popen_argv(args, kwargs))
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
        def call(*args, **kwargs):
            if not getattr(watch._inside, "popen", False):  # subprocess itself may use posix_spawn
                watch._note(_os_argv(name, args, kwargs) or ())
                if len(args) > 2:
                    args = (*args[:2], watch._with_probe(args[2]), *args[3:])
                elif "env" in kwargs:
                    kwargs["env"] = watch._with_probe(kwargs["env"])
            return real(*args, **kwargs)

        setattr(os, name, call)


# Popen's parameters between ``args`` and ``env``.
_ENV_PLACE = 10


@_quiet
def _popen_argv(args, kwargs):
    if isinstance(args, (str, bytes, os.PathLike)):
        return ["sh", "-c", args]
    if kwargs.get("shell"):
        return ["sh", "-c", *args]
    return [kwargs.get("executable") or args[0], *args[1:]]


@_quiet
def _os_argv(name, args, kwargs):
    if name == "system":
        return ["sh", "-c", args[0] if args else kwargs["command"]]
    path = args[0] if args else kwargs["path"]
    if os.sep in os.fsdecode(path) and not os.access(path, os.X_OK):
        return None  # os.execvp tries every folder of PATH
    # The program, not the name that it is told of itself.
    return [path, *(args[1] if len(args) > 1 else kwargs["argv"])[1:]]


def _watch_counters(module, log):
    module.counters = RecordingCounters(log)
    log.write("torch", version=module.torch.__version__)


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
                self._wrap(spec, hook)
                return spec
        return None

    def _wrap(self, spec, hook):
        log = self._log
        try:
            real = spec.loader.exec_module

            def exec_module(module):
                real(module)
                try:
                    hook(module, log)
                except Exception as error:
                    log.write("probe_error", where=module.__name__, error=repr(error))

            spec.loader.exec_module = exec_module
        except Exception as error:
            log.write("probe_error", where=spec.name, error=repr(error))


def start():
    """Start watching, when the environment names a folder to write to."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not os.path.isdir(folder):
        return
    log = Log(os.path.abspath(folder))
    log.write(
        "process", argv=[str(word) for word in getattr(sys, "orig_argv", sys.argv)[:4]], parent=os.getppid()
    )
    ProcessWatch(log).install()
    sys.meta_path.insert(0, ImportWatch(log))
