import pytest

from glowplug.core.compat import Accepted, Candidate, Rejected, choose, judge
from glowplug.core.oci import MANIFEST_TYPE, Descriptor
from glowplug.core.target import FIELD_NAMES
from unit.samples import CPU, H100


def candidate(target, digit="0"):
    return Candidate(Descriptor(MANIFEST_TYPE, "sha256:" + digit * 64, 1), target)


@pytest.mark.parametrize("target", [CPU, H100])
def test_an_equal_target_fits(target):
    assert judge(candidate(target), target) == Accepted(candidate(target))


@pytest.mark.parametrize("name", FIELD_NAMES)
@pytest.mark.parametrize("other", ["other", ""])
def test_each_field_matters(name, other):
    verdict = judge(candidate(H100), H100._replace(**{name: other}))
    assert isinstance(verdict, Rejected)
    (mismatch,) = verdict.mismatches
    assert (mismatch.field, mismatch.artifact, mismatch.host) == (name, getattr(H100, name), other)
    assert str(verdict) == (
        f"h100-80gb-hbm3-sm90: {name.replace('_', ' ')} {getattr(H100, name)} ≠ {other or 'none'}"
    )


@pytest.mark.parametrize(
    ("artifact", "host", "fits"),
    [
        ("glibc-2.36", "glibc-2.36", True),
        ("glibc-2.36", "glibc-2.37", True),
        ("glibc-2.9", "glibc-2.36", True),
        ("glibc-2.36", "glibc-3.0", True),
        ("glibc-2.36", "glibc-2.36.9000", True),
        ("glibc-2.36", "glibc-2.35", False),
        ("glibc-2.36", "glibc-2.9", False),
        ("glibc-3.0", "glibc-2.99", False),
        ("musl-1.2.4", "musl-1.2.5", True),
        ("musl-1.2.5", "musl-1.2.4", False),
        ("glibc-2.36", "musl-1.2.5", False),
        ("musl-1.2.5", "glibc-2.36", False),
        ("glibc-2.36", "", False),
        ("", "glibc-2.36", False),
        ("", "", True),
        # What a hostile artifact may say must not break the comparison.
        ("glibc-²", "glibc-2.36", True),
        ("glibc-" + "9" * 5000, "glibc-2.36", False),
        ("glibc", "glibc-2.36", True),
        ("glibc-2.x", "glibc-2.36", True),
    ],
)
def test_the_host_s_c_library_may_be_newer(artifact, host, fits):
    verdict = judge(candidate(H100._replace(libc=artifact)), H100._replace(libc=host))
    assert isinstance(verdict, Accepted) is fits


def test_the_closest_comes_first():
    near = candidate(H100._replace(torch="2.12.0"), "3")
    far = candidate(CPU, "2")
    exact = candidate(H100, "1")
    best, trace = choose([far, near, exact], H100)
    assert best == exact
    assert [verdict.candidate for verdict in trace] == [exact, near, far]


def test_the_trace_says_why_nothing_fits():
    best, trace = choose([candidate(CPU, "2"), candidate(H100._replace(torch="2.12.0", triton=""))], H100)
    assert best is None
    assert str(trace[0]) == "h100-80gb-hbm3-sm90: torch 2.12.0 ≠ 2.13.0+cu130, triton none ≠ 3.9.0"
    assert str(trace[1]).startswith("cpu-x86_64-avx512_vnni: device kind cpu ≠ cuda, device name")


def test_a_tie_is_broken_by_the_digest():
    twins = [candidate(H100, digit) for digit in "312"]
    best, trace = choose(twins, H100)
    assert best == twins[1]
    assert choose(twins[::-1], H100) == (best, trace)


def test_nothing_on_offer():
    assert choose([], H100) == (None, ())
