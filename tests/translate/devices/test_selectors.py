"""Expressions of DeviceClasses and claims: what they mean, what they look at, and what they may cost."""

from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.fields import convert
from muster.api.resource_v1 import Device
from muster.translate.devices.selectors import _TEXTS, LONGEST, Expressions, Facts, facts, names
from tests.tiers import examples

DEVICE: Final[Any] = {
    "name": "gpu-0",
    "attributes": {
        "productName": {"string": "NVIDIA A100"},
        "gpu.nvidia.com/index": {"int": 3},
        "gpu.nvidia.com/mig": {"bool": False},
        "gpu.nvidia.com/driverVersion": {"version": "550.54.15"},
        "gpu.nvidia.com/links": {"ints": [1, 2]},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        "uuid": {"string": "GPU-1"},
    },
    "capacity": {"memory": {"value": "40Gi"}, "cores": {"value": 108}, "strange": {"value": "much"}},
}
GPU: Final = facts("gpu.nvidia.com", convert(DEVICE, Device))
OF: Final = 'device.attributes["gpu.nvidia.com"]'
HAS: Final = 'device.capacity["gpu.nvidia.com"]'


@pytest.fixture(scope="module")
def by() -> Expressions:
    pytest.importorskip("cel_expr_python")
    return Expressions()


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.nvidia.com"',
        f'{OF}.productName == "NVIDIA A100"',
        f'{OF}.productName.lowerAscii().matches("^.*a100$")',
        f"{OF}.index == 3 && !{OF}.mig",
        f"{OF}.index in [1, 2, 3]",
        'device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci")',
        f'cel.bind(d, {OF}, d.index == 3 && d.productName.contains("A100"))',
        f'"index" in {OF} && !("more" in {OF})',
        f"has({OF}.index) && !has({OF}.more)",
        '!("x" in device.attributes["other.example.com"])',
        '!("other.example.com" in device.attributes)',
        f"{OF}.?more.orValue(7) == 7",
        f'{HAS}.memory.compareTo(quantity("40Gi")) == 0',
        f'{HAS}.memory.isGreaterThan(quantity("39.5Gi")) && {HAS}.memory.isLessThan(quantity("41Gi"))',
        f'{HAS}.memory == quantity("40960Mi")',
        f"{HAS}.cores.asInteger() == 108 && {HAS}.cores.isInteger() && {HAS}.cores.sign() == 1",
        f'{HAS}.cores.add(quantity("2")).sub(quantity("10")).asApproximateFloat() == 100.0',
        f'{OF}.driverVersion.isGreaterThan(semver("550.9.0")) && {OF}.driverVersion.major() == 550',
        f'{OF}.driverVersion.compareTo(semver("550.54.15")) == 0 && {OF}.driverVersion.minor() == 54',
        'semver("1.0.0-rc.2").isLessThan(semver("1.0.0"))',
        'semver("1.0.0-2").isLessThan(semver("1.0.0-rc"))',
        'semver("v1.02", true) == semver("1.2.0") && semver("1.2.3").patch() == 3',
        'isSemver("1.2.3") && !isSemver("v1") && isSemver("v1", true)',
        'isQuantity("1Gi") && !isQuantity("much")',
        "!device.allowMultipleAllocations",
        'device.attributes.exists(domain, domain == "gpu.nvidia.com")',
    ],
)
def test_an_expression_that_holds(by: Expressions, expression: str) -> None:
    assert by.fault(expression) == ""
    assert by.holds(expression, GPU)
    looked = names(expression)
    less = facts("gpu.nvidia.com", convert(DEVICE, Device), looked)
    assert by.holds(expression, less), "it looks at nothing else"


@pytest.mark.parametrize(
    "expression",
    [
        "false",
        f"{OF}.missing == 1",
        f"!({OF}.missing == 1)",
        f"{OF}.links.size() == 2",
        f'{OF}.index == "3"',
        f"{OF}.index + 9223372036854775807 > 0",
        "1 / 0 == 1",
        f'{HAS}.strange.isGreaterThan(quantity("1"))',
        f'{HAS}.memory.isGreaterThan(quantity("much"))',
        f'{HAS}.memory.isGreaterThan(semver("1.0.0"))',
        f'semver("x.y") == semver("x.y") || {OF}.index.isLessThan(quantity("1"))',
        OF,
        f"{OF}.index",
    ],
)
def test_one_that_fails_or_is_not_boolean_holds_of_no_device(by: Expressions, expression: str) -> None:
    assert not by.holds(expression, GPU)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "Syntax error"),
        ("device.", "Syntax error"),
        ("1", "it is INT, and must be true or false"),
        ('"yes"', "it is STRING"),
        ("undeclared == 1", "undeclared reference"),
        ("(" * 3000 + "true" + ")" * 3000, "limit"),
        ("true || " * LONGEST + "true", f"at most {LONGEST}"),
        ("\ud800", "it is no text"),
    ],
)
def test_a_fault_is_told(by: Expressions, expression: str, why: str) -> None:
    assert why in by.fault(expression)
    assert not by.holds(expression, GPU)


def test_loops_have_a_budget(by: Expressions) -> None:
    numbers = f"[{','.join(map(str, range(100)))}]"
    expression = "true"
    for name in "abcd":
        expression = f"{numbers}.all({name}, {expression})"
    assert by.fault(expression) == ""
    assert not by.holds(expression, GPU)


@pytest.mark.parametrize(
    ("expression", "looked"),
    [
        ('device.driver == "gpu.nvidia.com"', set()),
        (f"{OF}.index == 3", {"index"}),
        (f"{OF}['index'] == 3 && {HAS}.memory == quantity('1')", {"index", "memory"}),
        (f'"mig" in {OF}', {"mig"}),
        (f"{OF}.?more.orValue(1) == 1", {"more"}),
        (f"{OF}[?'more'].orValue(1) == 1", {"more"}),
        (f'{OF}.productName == "a device of mine"', {"productName"}),
        (f"cel.bind(d, {OF}, d.index == 3)", None),
        ("device.attributes.all(k, true)", None),
        ('device.attributes["gpu" + ".nvidia.com"].index == 3', None),
        (f'{OF}["in" + "dex"] == 3', None),
        (f"{OF} == {HAS}", None),
        ("device == device", None),
        (f"size({OF}) > 2 && {OF}.index == 1", None),
    ],
)
def test_what_an_expression_looks_at(expression: str, looked: set[str] | None) -> None:
    assert names(expression) == looked


@pytest.mark.parametrize(
    "expression",
    [
        f"{OF}.index == 3 // as {OF}.uuid is",
        f'{OF}.index == 3 // "',
        f'{OF}.index == 3 && "',
        f"{OF}.index == 3 && '\\'",
        f'{OF}.index == 3 && r"\\" != {OF}.uuid + r"\\"',
        f'"""a"b""" == {OF}.uuid || {OF}.index == 3 || {OF}.uuid == """a"b"""',
        f"{OF}.index == 3" + " " * LONGEST,
    ],
)
def test_an_expression_whose_texts_do_not_evidently_end_may_look_at_all(expression: str) -> None:
    assert names(expression) is None


@pytest.mark.parametrize("part", ['\\"', "\\'", '\\"['])
def test_a_text_that_nothing_closes_is_looked_at_once(part: str) -> None:
    """A search that began again at each of its quotes would take a time that grows with their square."""
    text = part * (LONGEST // len(part))
    assert [match.end() for match in _TEXTS.finditer(text)][-1] == len(text)
    assert len([*_TEXTS.finditer(text)]) == 1


PIECES: Final = [
    *(f"{OF}.{name}" for name in ("index", "mig", "uuid", "more", "?index")),
    *(OF, HAS, "device", "device.attributes", '"uuid"', "'uuid' in ", '["uuid"]', ".uuid", "d", "3", '"'),
    *(
        " == ",
        " && ",
        "!",
        "(",
        ")",
        "cel.bind(d, ",
        ", ",
        "size(",
        ".exists(k, ",
        "has(",
        "true",
        "+",
        "[0]",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
@settings(max_examples=examples(1500), deadline=None)
def test_names_that_an_expression_does_not_look_at_do_not_matter(by: Expressions, expression: str) -> None:
    """Whatever is written: without what it does not name, the answer is the same."""
    looked = names(expression)
    if looked is not None and not by.fault(expression):
        less = facts("gpu.nvidia.com", convert(DEVICE, Device), looked)
        assert by.holds(expression, less) == by.holds(expression, GPU)


@given(st.text(max_size=30))
@settings(max_examples=examples(300), deadline=None)
def test_any_text_is_an_expression_or_has_a_fault(by: Expressions, text: str) -> None:
    assert isinstance(by.holds(text, GPU), bool)
    names(text)


def test_facts_have_the_drivers_domain_where_none_is_written() -> None:
    assert GPU.attributes["gpu.nvidia.com"]["productName"] == "NVIDIA A100"
    assert GPU.attributes["resource.kubernetes.io"] == {"pcieRoot": "pci0000:00"}
    assert "links" not in GPU.attributes["gpu.nvidia.com"]
    assert GPU.capacity == {
        "gpu.nvidia.com": {"memory": {"quantity": str(40 * 2**30)}, "cores": {"quantity": "108"}}
    }
    assert facts("d", convert(DEVICE, Device), frozenset()) == Facts(driver="d")
