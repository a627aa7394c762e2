"""What the compiler gets of the objects that decide about jobs."""

from muster import names
from muster.api.kinds import NAMESPACE, PERSISTENT_VOLUME_CLAIM
from muster.controllers.batch_watches import DECLARING, INDEXES, Declaring
from tests.controllers.memory import Memory


def test_objects_are_encoded_again_only_if_one_changes_and_without_what_decides_nothing() -> None:
    memory, declaring = Memory(), Declaring()
    notes = {names.ALLOWED_CONSUMERS: "ml/*", "example.com/long": "x" * 100_000}
    memory.create(PERSISTENT_VOLUME_CLAIM, "ml", {"metadata": {"name": "vol-a", "annotations": notes}})
    memory.create(NAMESPACE, "", {"metadata": {"name": "other"}})
    caches = memory.caches(DECLARING, INDEXES)
    [claim] = declaring.objects(caches)
    assert claim["kind"] == "PersistentVolumeClaim"
    assert claim["metadata"]["annotations"] == {names.ALLOWED_CONSUMERS: "ml/*"}
    assert declaring.objects(caches) is declaring.objects(caches)
    before = declaring.objects(caches)
    [old] = caches[PERSISTENT_VOLUME_CLAIM].items.values()
    caches[PERSISTENT_VOLUME_CLAIM].change(old, None)
    assert declaring.objects(caches) == []
    assert before != []
