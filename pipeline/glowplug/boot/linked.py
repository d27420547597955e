"""From a model's image to the cache that it is linked to (docs/reference/artifact-format.md, "Link")."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from glowplug.boot.resolve import require_fit
from glowplug.core.artifact import architecture_of
from glowplug.core.compat import Candidate
from glowplug.core.link import LINK_TYPE, Link, read_links
from glowplug.core.oci import Descriptor, Document
from glowplug.core.reference import Reference, RegistryRepository
from glowplug.core.target import Target
from glowplug.errors import NoCompatibleTargetError, NotFoundError
from glowplug.registry.image import image_manifest
from glowplug.registry.options import Options
from glowplug.registry.referrers import find_referrers
from glowplug.registry.source import Source

T = TypeVar("T")


def find_links(
    source: Source, reference: Reference, document: Document, architecture: str
) -> tuple[Link, ...]:
    """Return the links of an image, the latest for each target; none when it is no image for this architecture.

    Args:
        source: the image's repository.
        reference: the image.
        document: what the reference names.
        architecture: ``amd64``, ``arm64``: whose links, of an image for several platforms.

    Raises:
        DeniedError, UnavailableError, IntegrityError: what refers to the image cannot be read.
    """
    try:
        subject = image_manifest(document, architecture, str(reference))
    except NotFoundError:
        return ()
    links = read_links(find_referrers(source, subject.digest, LINK_TYPE).entries)
    # A registry has no say about this machine's folders.
    here = not isinstance(reference.repository, RegistryRepository)
    return tuple(link for link in links if here or isinstance(link.cache.repository, RegistryRepository))


def linked_cache(source: Source, reference: Reference, document: Document, host: Target) -> Reference | None:
    """Return the cache for ``host`` that an image is linked to; ``None`` when it is linked to none.

    Raises:
        NoCompatibleTargetError: it is linked to caches, and none fits.
        DeniedError, UnavailableError, IntegrityError: see ``find_links``.
    """
    links = find_links(source, reference, document, architecture_of(host.machine))
    if not links:
        return None
    # Nothing is known of what the links lead to but the target; by it they are told apart.
    by_target = {link.target: link.cache for link in links}
    offered = [Candidate(Descriptor("", str(cache), 0), target) for target, cache in by_target.items()]
    best, _ = require_fit(reference, offered, host)
    return by_target[best.target]


def options_for(cache: Reference, image: Reference, options: Options) -> Options:
    """Return how to read a linked cache: with the login that was given for the image only if both are in one registry."""
    return options if _host(cache) == _host(image) else options._replace(login_variables=False)


def by_tag_or_digest(read: Callable[[Reference], T], cache: Reference) -> T:
    """Read what a linked cache's tag stands for now, which servers' updates move on, or else the cache as it was linked.

    A tag that is gone, or that another build of the version has taken for another torch, leaves what the image was linked to.
    """
    if cache.tag is None:
        return read(cache)
    try:
        return read(cache._replace(digest=None))
    except (NotFoundError, NoCompatibleTargetError):
        return read(cache)


def _host(reference: Reference) -> str:
    repository = reference.repository
    return repository.host if isinstance(repository, RegistryRepository) else ""
