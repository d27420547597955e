"""Counters that stand in for torch's own, and write down each rise."""

import collections

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


class _RecordingCounter(collections.Counter):
    """One group of torch's counters; each rise becomes an event. Copies of it are plain."""

    group = None
    log = None

    def __setitem__(self, name, value):
        before = self.get(name, 0)
        super().__setitem__(name, value)
        if self.log is not None:
            self._record(name, value, before)

    def _record(self, name, value, before):
        watched = WATCHED_COUNTERS.get(self.group, ())
        try:
            if value > before and (watched is None or name in watched):
                self.log.write("counter", group=self.group, name=str(name)[:300], by=value - before)
        except Exception:  # whatever a name or a value may be: the model must not notice
            pass

    def copy(self):
        return collections.Counter(self)

    def __reduce__(self):
        return collections.Counter, (dict(self),)


class RecordingCounters(collections.defaultdict):
    """Stands in for ``torch._dynamo.utils.counters``, a defaultdict of Counters. Copies of it are plain."""

    def __init__(self, log):
        super().__init__(collections.Counter)
        self._log = log

    def __missing__(self, group):
        self[group] = collections.Counter()
        return self[group]

    def __setitem__(self, group, counter):
        # torch also puts back a copy that it took (_inductor/pattern_matcher.py, lazy_init): it has to go on recording.
        if isinstance(counter, collections.Counter) and not isinstance(counter, _RecordingCounter):
            counter = _RecordingCounter(counter)
            counter.group, counter.log = group, self._log
        super().__setitem__(group, counter)

    def copy(self):
        return collections.defaultdict(collections.Counter, self)

    __copy__ = copy

    def __reduce__(self):
        return collections.defaultdict, (collections.Counter,), None, None, iter(self.items())
