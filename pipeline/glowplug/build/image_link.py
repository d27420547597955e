"""Links the model's image to the artifact that was made in it, so that whoever has the one finds the other."""

from __future__ import annotations

from glowplug.core.image import ModelImage
from glowplug.core.link import link_to
from glowplug.core.oci import Manifest
from glowplug.core.record import ANNOTATION_IMAGE
from glowplug.core.reference import Reference, RegistryRepository
from glowplug.errors import GlowplugError
from glowplug.registry.image import image_manifest
from glowplug.registry.links import attach_link
from glowplug.registry.options import Options
from glowplug.registry.sink import open_sink_without_extras
from glowplug.report.console import Console


def link_image(
    image: ModelImage, artifact: Reference, manifest: Manifest, options: Options, console: Console
) -> None:
    """Attach a link to the image in its registry; that it cannot be done is one warning, since the artifact is there.

    Nothing happens when the image or the artifact is in no registry: then there is nothing that others could read.

    Args:
        image: the image in which the artifact was made.
        artifact: by tag and digest.
        manifest: the artifact's.
        options: of connections to the artifact's registry.
        console: where to say so.
    """
    published, link = image.published, link_to(artifact, manifest.annotations)
    here, there = artifact.repository, published.repository if published else None
    if published is None or link is None:
        return
    if manifest.annotations.get(ANNOTATION_IMAGE) != image.recorded:
        console.note(
            f"{artifact} was not made in {published}, and is not linked to it; --rebuild makes it anew"
        )
        return
    if not isinstance(here, RegistryRepository) or not isinstance(there, RegistryRepository):
        return
    # A login in variables is for the registry that the spec's artifact names.
    access = options._replace(login_variables=options.login_variables and here.host == there.host)
    try:
        with open_sink_without_extras(there, access) as sink:
            document = sink.resolve(published.selector)
            subject = image_manifest(document, image.architecture, str(published))
            is_new = attach_link(sink, subject, link)
    except GlowplugError as error:
        console.warn(f"the image is not linked to the artifact: {error}")
        return
    if is_new:
        console.line(f"{there}@{subject.digest} is linked to {artifact}")
