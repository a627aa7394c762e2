"""The queue that an object names: by muster's mark, or as other schedulers' users write it."""

from typing import Final

from muster.api import elastic_quota, marks
from muster.api.base import ObjectMeta
from muster.api.volcano_v1beta1 import QUEUE_NAME

#: The queue of a gang that names none, and is in a namespace that no queue serves.
DEFAULT_QUEUE: Final = "default"
#: Most characters of the name of an object.
_LONGEST_NAME: Final = 253


def stated_queue(meta: ObjectMeta, field: str = "") -> str:
    """Returns the queue that an object names, or "".

    The mark counts first, then `field`, Volcano's annotation, and the name of Koordinator's quota. A text too
    long is cut.
    """
    quota = meta.labels.get(elastic_quota.NAME, "")
    quota = elastic_quota.OWN.get(quota) or quota
    named = marks.QUEUE.text(meta) or field or meta.annotations.get(QUEUE_NAME) or quota
    return named if len(named) <= _LONGEST_NAME else f"{named[:_LONGEST_NAME]}…"
