"""Volcano's own scenarios have the outcome of their table."""

import pytest

from tests.dialects.volcano_scenarios import SCENARIOS, Scenario, Site


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.sort}: {each.name}")
def test_scenarios_of_volcanos_suite(scenario: Scenario) -> None:
    site = Site([2, 2, 2, 2])
    scenario.steps(site)
    assert site.running() == scenario.running
    assert site.evicted == scenario.evicted
