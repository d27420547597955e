"""What a registry itself lists as referring to a manifest (distribution-spec 1.1, "Listing Referrers")."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from glowplug.core.oci import INDEX_TYPE, Descriptor, Document, parse_index
from glowplug.errors import UnavailableError
from glowplug.registry.replies import OK, Reply, failure, next_page
from glowplug.registry.retry import retried
from glowplug.registry.transport import follow

if TYPE_CHECKING:
    from glowplug.registry.client import RegistrySource

# What registries answer that know no such list: not the header OCI-Subject decides, which some send without having one.
_NO_LIST = (400, 404, 405, 406, 501)
_MAX_PAGES = 100


def ask_registry(source: RegistrySource, subject: str, artifact_type: str) -> tuple[Descriptor, ...] | None:
    """See ``Source.referrers``."""
    action = f"list what refers to {source.repository}@{subject}"
    url = f"{source.base_url}/referrers/{subject}?artifactType={quote(artifact_type, safe='')}"
    found: list[Descriptor] = []
    for _ in range(_MAX_PAGES):
        reply = _page(source, url, action)
        if reply is None:
            return None
        found += parse_index(Document(INDEX_TYPE, reply.body)).manifests
        following = next_page(reply)
        if not following:
            return tuple(found)
        url = follow(url, following)
    raise UnavailableError(f"cannot {action}: the list has no end")


def _page(source: RegistrySource, url: str, action: str) -> Reply | None:
    def once() -> Reply | None:
        reply = source.request("GET", url, {"Accept": INDEX_TYPE})
        media_type = reply.headers.get("Content-Type", "").partition(";")[0].strip()
        if reply.status in _NO_LIST or (reply.status in OK and media_type != INDEX_TYPE):
            return None
        if reply.status not in OK:
            raise failure(reply, action)
        return reply

    return retried(once, source.options.retries, source.deadline)
