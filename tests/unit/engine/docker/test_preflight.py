import pytest

from glowplug.engine.docker.preflight import follow_pull
from glowplug.errors import EngineError, NotFoundError

GIB = 1024**3


def downloading(layer, current, total):
    return {"status": "Downloading", "id": layer, "progressDetail": {"current": current, "total": total}}


EVENTS = [
    {"status": "Pulling from acme/flux", "id": "v3"},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "a"},
    downloading("a", GIB, 4 * GIB),
    downloading("b", 0, 2 * GIB),
    {"status": "Extracting", "id": "a", "progressDetail": {"current": 1, "total": 9 * GIB}},
    {"status": "Status: Downloaded newer image"},
]


def test_progress_is_of_all_layers_together():
    said = []
    follow_pull("flux:v3", EVENTS, said.append, None)
    assert said == ["1.00 of 4.00 GiB", "1.00 of 6.00 GiB"]


def test_a_pull_that_cannot_fit_is_given_up_at_once():
    said = []
    with pytest.raises(EngineError, match=r"more than 6\.0 GiB, and 5\.0 GiB are left"):
        follow_pull("flux:v3", EVENTS, said.append, 5 * GIB)
    assert said == ["1.00 of 4.00 GiB"]


def test_one_that_fits_is_followed_to_its_end():
    follow_pull("flux:v3", EVENTS, lambda _words: None, 6 * GIB)


def test_an_error_among_the_events_is_explained():
    events = [*EVENTS[:2], {"errorDetail": {"message": "manifest unknown"}, "error": "manifest unknown"}]
    with pytest.raises(NotFoundError):
        follow_pull("flux:v3", events, lambda _words: None, None)
