"""The papers that can be repeated. A new one is a module with a ``REPRODUCTION`` and a line here."""

from collections.abc import Mapping

from bathyscope.surveying.papers import csordas2025, hu2025, lad2024
from bathyscope.surveying.papers.reproduction import Reproduction

REPRODUCTIONS: Mapping[str, Reproduction] = {
    module.REPRODUCTION.paper: module.REPRODUCTION for module in (csordas2025, hu2025, lad2024)
}
