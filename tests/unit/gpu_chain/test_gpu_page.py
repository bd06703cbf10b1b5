"""docs/verified-on.md is what the kept results say, and names no address of a machine."""

from tests.gpu.page import PAGE, page, read_results, without_addresses


def test_the_page_is_fresh():
    assert PAGE.read_text() == page(read_results())


def test_addresses_are_replaced_and_versions_are_not():
    text = "tcp://172.16.0.2:80 127.0.0.1 0.0.0.0 vLLM 0.25.1 driver 580.159.04 nvml 13.580.159.04"
    assert without_addresses(text) == text.replace("172.16.0.2", "192.0.2.1")
