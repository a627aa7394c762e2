from muster.embedded.verbs.addresses import Addresses


def test_ten_thousand_pods_have_an_address_each_and_none_is_the_machines() -> None:
    addresses = Addresses()
    given = [addresses.allot() for _ in range(70_000)]
    assert len(set(given)) == 70_000
    assert given[0] == "127.1.0.1"
    for address in given:
        first, second, _, last = map(int, address.split("."))
        assert first == 127
        assert second > 0
        assert 0 < last < 255


def test_an_address_in_use_is_not_given_again() -> None:
    addresses = Addresses(["127.1.0.2", "127.1.0.1", "", "10.0.0.1", "127.0.0.1"])
    assert addresses.allot() == "127.1.0.3"


def test_a_freed_address_rests_until_the_others_have_had_their_turn() -> None:
    addresses = Addresses()
    first = addresses.allot()
    addresses.free(first)
    assert addresses.allot() != first


def test_at_the_end_of_the_range_it_starts_again_with_what_is_free() -> None:
    addresses = Addresses(["127.255.255.254", "127.1.0.1"])
    assert addresses.allot() == "127.1.0.2"


def test_freeing_what_is_not_ours_is_nothing() -> None:
    addresses = Addresses()
    for text in ("", "10.1.1.1", "127.0.0.1", "127.1.0", "nonsense"):
        addresses.free(text)
    assert addresses.allot() == "127.1.0.1"
