"""Runs a workload input by input in the model's own interpreter: ``runner.py JOB.json``.

The job is written by glowplug/workload/job.py, which documents it; the result is rewritten after every step, so that a
model which dies half-way leaves what it did. Times are in seconds since this process was started.
"""

import importlib
import importlib.util
import json
import os
import random
import sys
import threading
import time
import traceback
import types

_MAX_ERROR_CHARS = 2000
# For what the model does at exit, such as saving a figure.
_LEAVING_S = 5.0
_HERE = os.path.dirname(os.path.abspath(__file__))


def _sibling(name):
    """Load a file beside this one under a name that no model's module has."""
    spec = importlib.util.spec_from_file_location("_glowplug_" + name, os.path.join(_HERE, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _started_at():
    """When the kernel started this process, on the boot clock (proc(5): stat field 22, in clock ticks)."""
    with open("/proc/self/stat", "rb") as stream:
        fields = stream.read().rsplit(b")", 1)[1].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _elapsed_s():
    return round(time.clock_gettime(time.CLOCK_BOOTTIME) - _STARTED_AT, 3)


def _die_with_parent():
    """Leave no model running when the builder is killed (prctl(2), PR_SET_PDEATHSIG = 1)."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 9)
    except (OSError, AttributeError):
        pass


_STARTED_AT = _started_at()


class Result:
    """What is known so far, on disk after every step."""

    def __init__(self, path):
        self._path = path
        self.data = {"complete": False, "inputs": []}

    def write(self):
        """Replace the file atomically."""
        temporary = self._path + ".tmp"
        with open(temporary, "w") as stream:
            json.dump(self.data, stream)
        os.replace(temporary, self._path)


class _Workload:
    """What most workloads have no need of: they live and end with this process."""

    def setup(self):
        """Nothing to set up: importing was it."""

    def close(self):
        """Nothing to close, and nothing to tell."""
        return []

    def kill(self):
        """Nothing to kill."""

    def facts(self):
        """Nothing but what torch says in this process."""
        return {}


class PythonWorkload(_Workload):
    """A callable that is called once per input."""

    def __init__(self, target):
        self.outputs = _sibling("outputs")
        self.call = _sibling("python_callable").PythonCallable(target).call


class CogWorkload(_Workload):
    """A Cog predictor: ``setup()`` once, then ``predict()`` or ``run()`` per input."""

    def __init__(self, ref, weights):
        self.outputs = _sibling("outputs")
        self._cog = _sibling("cog_predictor")
        self._predictor = self._cog.load(ref, os.getcwd())
        self._weights = weights

    def setup(self):
        """Run the predictor's own setup, as the Cog server does before it reports ready."""
        self._cog.setup(self._predictor, self._weights)

    def call(self, value):
        """Predict once."""
        return self._cog.call(self._predictor, self._cog.bind(self._predictor, dict(value or {})))


def _seed(seed):
    """Make two processes draw the same random numbers."""
    random.seed(seed)
    for name in ("numpy", "torch"):
        module = sys.modules.get(name)
        if name == "numpy" and module is not None:
            module.random.seed(seed % 2**32)
        elif module is not None:
            module.manual_seed(seed)


class _EarlierModule(types.ModuleType):
    """Looks like a module that imported torch before the model did, as a server's own module does.

    A replay starts with one, to show that the cache does not depend on it (start/sitecustomize.py says why it might).
    """

    def __getattr__(self, name):
        if name == "torch" and name in sys.modules:
            return sys.modules[name]
        raise AttributeError(name)


def _load(job):
    workload = job["workload"]
    if workload["type"] == "command":
        modules = _sibling("server_process"), _sibling("http_requests"), _sibling("answers")
        return _sibling("command").CommandWorkload(workload, job["uploads"], modules)
    if workload["type"] == "cog":
        return CogWorkload(workload["ref"], workload.get("weights"))
    return PythonWorkload(workload["target"])


def _run_input(model, job, index):
    _seed(job["seed"])
    before = time.monotonic()
    answer = model.outputs.flatten(model.call(job["inputs"][index]))
    entry = {"first_call_s": round(time.monotonic() - before, 4), "answered_at_s": _elapsed_s()}
    model.outputs.save(answer, _output_file(model, job["outputs"], index))
    return answer, entry


def _output_file(model, folder, index):
    return os.path.join(folder, "%d%s" % (index, model.outputs.SUFFIX))


def _run_steady(model, job, index, answer):
    """Call again: the latency users get, and whether the model repeats itself at all."""
    latencies, repeat = [], answer
    deadline = time.monotonic() + job["steady_budget_s"]
    for _ in range(job["steady_runs"]):
        _seed(job["seed"])
        before = time.monotonic()
        value = model.call(job["inputs"][index])
        latencies.append(time.monotonic() - before)
        repeat = model.outputs.flatten(value)
        if time.monotonic() > deadline:
            break
    if not latencies:
        return {}
    return {
        "steady_s": round(min(latencies), 4),
        "repeats": model.outputs.compare(answer, repeat, job["tolerance"]),
    }


def _compare(model, job):
    """Compare with the reference run, after everything was timed."""
    outputs, reports = model.outputs, []
    for index in range(len(job["inputs"])):
        expected = outputs.load(_output_file(model, job["reference"], index))
        actual = outputs.load(_output_file(model, job["outputs"], index))
        reports.append(outputs.compare(expected, actual, job["tolerance"]))
    return reports


def _torch_facts():
    """Say what torch itself says of this machine; empty when the model never imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    facts = {"torch": torch.__version__, "accelerator": torch.version.cuda or torch.version.hip or ""}
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability(0)
        properties = torch.cuda.get_device_properties(0)
        facts["device_name"] = torch.cuda.get_device_name(0)
        facts["device_arch"] = getattr(properties, "gcnArchName", "").split(":")[0] if torch.version.hip else (
            "sm_%d%d" % (major, minor)
        )  # fmt: skip
    if "triton" in sys.modules:  # a model that compiles nothing does not import it
        facts["triton"] = getattr(sys.modules["triton"], "__version__", "")
    facts["compiled"] = "torch._dynamo" in sys.modules
    return facts


def run(job, result):
    """Do the whole job; every figure lands in ``result`` as soon as it is known."""
    if job.get("behind_another_module"):
        sys.modules["_glowplug_earlier"] = _EarlierModule("_glowplug_earlier")
    model = _load(job)
    result.data["imported_at_s"] = _elapsed_s()
    try:
        _exercise(model, job, result)
    finally:
        model.kill()
    if job.get("reference"):
        result.data["comparisons"] = _compare(model, job)
    said = model.facts()  # may import torch
    result.data["torch"] = {**_torch_facts(), **said}
    result.data["complete"] = True


def _exercise(model, job, result):
    """Set the model up, give it every input, and again for its latency."""
    model.setup()
    result.data["ready_at_s"] = _elapsed_s()
    result.write()
    answers = []
    for index in range(len(job["inputs"])):
        answer, entry = _run_input(model, job, index)
        answers.append(answer)
        result.data["inputs"].append(entry)
        result.data.setdefault("first_answer_s", entry["answered_at_s"])
        result.write()
    result.data["warmed_at_s"] = _elapsed_s()
    for index, answer in enumerate(answers):
        result.data["inputs"][index].update(_run_steady(model, job, index, answer))
    result.data["notes"] = model.close()


def _print_error(error):
    """Print a traceback that starts where the model does."""
    frames = error.__traceback__
    while frames is not None and _is_before_model(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _is_before_model(path):
    return path.startswith((_HERE, "<frozen importlib")) or path == importlib.__file__


def _leave_soon(code):
    """End this process some seconds after its work, although threads of the model may go on for ever."""

    def leave():
        time.sleep(_LEAVING_S)
        os._exit(code)

    threading.Thread(target=leave, daemon=True).start()


def main():
    """Run the job named on the command line; exit 1 when the model raised."""
    _die_with_parent()
    with open(sys.argv[1]) as stream:
        job = json.load(stream)
    job["uploads"] = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "uploads")
    sys.argv = [job["workload"].get("ref") or job["workload"].get("target") or job["workload"]["command"][0]]
    sys.path[:] = ["", *(entry for entry in sys.path if entry != _HERE)]  # as `python -c` has it
    result = Result(job["result"])
    try:
        run(job, result)
    except BaseException as error:
        _leave_soon(1)
        is_sentence = type(error).__name__ == "ServerError"
        said = str(error) if is_sentence else "%s: %s" % (type(error).__name__, error)
        result.data["error"] = said[:_MAX_ERROR_CHARS]
        result.write()
        if not is_sentence:
            _print_error(error)
        return 1
    result.write()
    _leave_soon(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
