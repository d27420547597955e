import pytest

from glowplug.core.facts import Facts, facts_from_json
from glowplug.errors import IntegrityError
from unit.samples import H100

FACTS = Facts(H100, 2, "580.95", "A Processor", ("something is odd",))


def test_facts_come_back_from_json():
    assert facts_from_json({"gpu_type": "more", **FACTS.to_json()}) == FACTS


@pytest.mark.parametrize("value", [None, [], {}, {**FACTS.to_json(), "device_count": "two"}, {"target": {}}])
def test_what_are_no_facts(value):
    with pytest.raises(IntegrityError):
        facts_from_json(value)
