"""Reads the metadata of a batch job: its name, namespace, labels and annotations."""

from typing import Final

from muster.security.metadata import instead, is_of_tool
from muster.workloads import dns
from muster.workloads.section import Section

#: Most labels and annotations that are emitted, and most bytes of both: policies are asked about each.
MOST: Final = 64
MOST_BYTES: Final = 16 * 1024


def name(section: Section) -> str:
    """The job's name, "" if it cannot be used."""
    given = section.text("name")
    if dns.is_label(given) and len(given) <= dns.LABEL:
        return given
    section.error("name", "is lowercase letters, digits and hyphens, beginning with a letter, at most 63")
    return ""


def keys(section: Section) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations that are emitted; a key that no job may have is an error."""
    read = []
    for field in ("labels", "annotations"):
        texts = {key: text for key, text in section.texts(field).items() if not is_of_tool(key)}
        for key in texts:
            if told := instead(key):
                section.error((field, key), f"cannot be set here; {told}")
        read.append(texts)
    labels, annotations = read
    number = len(labels) + len(annotations)
    if number > MOST:
        section.error((), f"has {number:,} labels and annotations; the most is {MOST}")
    size = sum(len(key) + len(text.encode()) for texts in read for key, text in texts.items())
    if size > MOST_BYTES:
        section.error((), f"has {size:,} bytes of labels and annotations; the most is {MOST_BYTES:,}")
    return labels, annotations
