"""Each page as people see it: live, with and without scripts, on any screen, and whatever a job prints."""

import hashlib
import re
import socket
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, dashboard
from tests.dashboard.test_server import TRACE
from tests.patience import PATIENCE

AXE = Path(__file__).parent / "axe/axe-core-4.14.1.min.js"
#: Of axe.min.js as its project publishes it (axe-core 4.14.1), under the MPL 2.0 (axe/LICENSE).
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
HOSTILE = r"printf '<script>alert(1)</script> \033[31mred \342\200\256 \"%s\"\n' end; sleep 1000"
expect.set_options(timeout=PATIENCE * 1_000)  # ms


def addresses(site: Site) -> list[str]:
    """The pages that the first one leads to, and that of a job."""
    page = site.page()
    found = page.locator("nav a").evaluate_all("all => all.map(each => each.getAttribute('href'))")
    return [*dict.fromkeys(found), "/jobs/default/shown"]


@pytest.fixture(scope="module", autouse=True)
def jobs(everything: Site) -> None:
    everything.submit("shown", HOSTILE)
    everything.submit("waits", "sleep 1", cpu="8")


def violations(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url}: {each['id']}: {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found["violations"]
    ]


def test_axe_is_what_its_project_publishes() -> None:
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == SHA256


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_each_page(site: Site, scheme: str) -> None:
    page = site.page("/", color_scheme=scheme)
    found = []
    for address in addresses(site):
        page.goto(address)
        expect(page.locator("h1")).to_be_visible()
        found += violations(page)
    assert found == []


def test_no_page_is_wider_than_a_narrow_screen(site: Site) -> None:
    page = site.page("/", viewport={"width": 360, "height": 740})
    for address in addresses(site):
        page.goto(address)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, f"{address} is {wide} px wide"


def test_a_page_follows_the_cluster_in_all_tabs(site: Site) -> None:
    first = site.page("/jobs")
    second = site.tab(first.context, "/")
    for page in (first, second):
        expect(page.locator("h1")).to_be_visible()
        page.evaluate("window.same = true")
    site.submit("later", "sleep 1000")
    expect(first.locator("main")).to_contain_text("later")
    expect(second.locator("#runs + *")).to_contain_text("later")
    site.muster("cancel", "later")
    expect(first.locator("main")).not_to_contain_text("later")
    assert all(page.evaluate("window.same") for page in (first, second))  # without a reload


def test_a_filter_is_in_the_address_and_back_undoes_it(site: Site) -> None:
    page = site.page("/jobs")
    page.get_by_label("state").select_option("waiting")
    expect(page).to_have_url(re.compile("state=waiting"))
    expect(page.locator("tbody")).to_contain_text("waits")
    expect(page.locator("tbody")).not_to_contain_text("shown")
    page.go_back()
    expect(page.locator("tbody")).to_contain_text("shown")


def test_a_connection_that_is_lost_is_said_and_found_again(site: Site) -> None:
    page = site.page("/jobs")
    expect(page.locator("tbody")).to_contain_text("shown")
    page.route("**/events", lambda route: route.abort())
    page.goto("/jobs")
    expect(page.locator("#live")).to_contain_text("connection lost")
    page.unroute("**/events")
    page.reload()
    expect(page.locator("#live")).to_have_text("")


def test_a_page_finds_a_dashboard_that_was_started_again(site: Site) -> None:
    """In another tab, its new address lets this browser in; until then the open page says what it lacks."""
    with dashboard(site.home) as said:
        address = _address(said)
        here = address.partition("/?")[0]
        page = site.page(address, access=False)
        page.goto(f"{here}/jobs")
        expect(page.locator("tbody")).to_contain_text("shown")
        page.evaluate("window.same = true")
    expect(page.locator("#live")).to_contain_text("connection lost")
    site.submit("unseen", "sleep 1000")
    with dashboard(site.home, "--port", here.rpartition(":")[2]) as said:
        expect(page.locator("#live")).to_contain_text("no access any more")
        site.tab(page.context, _address(said))
        expect(page.locator("tbody")).to_contain_text("unseen")
        expect(page.locator("#live")).to_have_text("")
        assert page.evaluate("window.same")  # without a reload
        for each in page.context.pages:
            each.close()
    site.muster("cancel", "unseen")
    site.faults[:] = [each for each in site.faults if here not in each]


def _address(said: str) -> str:
    found = re.search(r"http://\S+", said)
    assert found is not None, said
    return found[0]


def test_a_replay_is_computed_and_shown_at_its_address_with_and_without_scripts(
    site: Site, tmp_path: Path
) -> None:
    trace = tmp_path / "a <b> trace.jsonl"
    trace.write_text(TRACE)
    for scripts in (True, False):
        page = site.page("/replay", java_script_enabled=scripts, viewport={"width": 360, "height": 740})
        page.get_by_label("trace").fill(str(trace))
        page.get_by_role("button", name="Replay").click()
        expect(page).to_have_url(re.compile(r"/replay\?trace="))
        while not scripts and not page.locator("#figures").count():
            page.reload()  # as <meta> does
        expect(page.locator("#figures")).to_contain_text("3 jobs on 1 node, 10 CPUs")
        expect(page.locator(".beside svg")).not_to_have_count(0)
        if scripts:
            assert page.evaluate("document.documentElement.scrollWidth") <= 360
            assert violations(page) == []
    page.goto(f"{page.url}&first=pack")  # the first of each counts
    expect(page.locator("#figures")).to_be_visible()


def test_without_scripts_each_page_is_whole_and_a_job_is_cancelled(site: Site) -> None:
    site.submit("unscripted", "sleep 1000")
    page = site.page("/", java_script_enabled=False)
    for address in addresses(site):
        page.goto(address)
        assert page.locator("h1").count() == 1
        # what is typed into a form is not reloaded away
        assert page.locator("meta[http-equiv=refresh]").count() == (
            0 if address in ("/plan", "/replay") else 1
        )
    page.goto("/jobs/default/unscripted")
    cancel(page, "unscripted")
    expect(page.locator("main")).not_to_contain_text("unscripted")


def test_a_job_is_held_released_and_cancelled(site: Site) -> None:
    site.submit("steered", "sleep 1000", cpu="8")
    page = site.page("/jobs/default/steered")
    page.get_by_role("link", name="Cancel, hold or release").click()
    page.get_by_role("button", name="Hold steered").click()
    expect(page).to_have_url(re.compile("/jobs/default/steered$"))
    page.get_by_role("link", name="Cancel, hold or release").click()
    page.get_by_role("button", name="Release steered").click()
    expect(page).to_have_url(re.compile("/jobs/default/steered$"))
    cancel(page, "steered")
    expect(page).to_have_url(re.compile("/jobs$"))
    expect(page.locator("main")).not_to_contain_text("steered")


def cancel(page: Page, name: str) -> None:
    page.get_by_role("link", name="Cancel, hold or release").click()
    page.get_by_role("button", name=f"Cancel {name}").click()


def test_a_job_that_vanishes_while_its_page_is_open(site: Site) -> None:
    site.submit("vanishes", "sleep 1000")
    page = site.page("/jobs/default/vanishes")
    expect(page.locator("h1")).to_have_text("vanishes")
    site.muster("cancel", "vanishes")
    expect(page.locator("h1")).to_have_text("vanishes is gone")


def test_what_a_job_prints_is_text(site: Site) -> None:
    page = site.page("/jobs/default/shown")
    expect(page.locator("pre")).to_contain_text("<script>alert(1)</script>")
    expect(page.locator("pre")).to_contain_text(r"\u202e")
    assert page.locator("main script").count() == 0


def test_a_browser_without_access_sees_nothing(site: Site) -> None:
    for address in addresses(site):
        page = site.page(address, access=False)
        assert page.locator("h1").inner_text() == "No access"
        assert "shown" not in page.content()


def test_users_of_a_cluster_sign_in(site: Site) -> None:
    """Whose a token is, only a real API server says (tests/cluster/test_dashboard.py)."""
    kubeconfig = ("--kubeconfig", str(site.home / "kubeconfig"))
    with dashboard(site.home, "--listen", "127.0.0.1:0", *kubeconfig) as said:
        address = f"http://localhost:{said.split()[-1]}"
        page = site.page("/", access=False, viewport={"width": 360, "height": 740})
        answer = page.goto(f"{address}/jobs")
        assert answer is not None
        assert answer.status == 401
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(page) == []
        page.get_by_label("token").fill("not a token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("The cluster does not accept this token")
        assert "not a token" not in page.content()
    site.faults[:] = [each for each in site.faults if address not in each]


def test_another_name_for_this_machine_sees_nothing(site: Site) -> None:
    """DNS rebinding: a page of evil.example whose name now leads here."""
    page = site.page("/", access=False)
    port = site.address.rpartition(":")[2]
    evil = f"http://evil.example:{port}"
    answer = page.goto(f"{evil}/jobs")
    assert answer is not None
    assert (answer.status, "shown" in page.content()) == (421, False)
    site.faults[:] = [each for each in site.faults if evil not in each]


def test_readers_that_do_not_read_slow_nobody_down(site: Site) -> None:
    page = site.page("/jobs")
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies())
    host, port = site.address.removeprefix("http://").split(":")
    asleep = [socket.create_connection((host, int(port))) for _ in range(30)]
    for each in asleep:
        each.sendall(f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
    site.submit("meanwhile", "sleep 1000")
    expect(page.locator("main")).to_contain_text("meanwhile")
    site.muster("cancel", "meanwhile")
    for each in asleep:
        each.close()
