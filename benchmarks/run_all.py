"""Every benchmark, each in its own process, one after another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = (
    "skip_speed.py",
    "real_shapes.py",
    "direct_speed.py",
    "erasure_speed.py",
    "gradients_speed.py",
    "jacobian_lens_speed.py",
    "schedules_speed.py",
    "pairs_speed.py",
    "corpus.py",
    "survey_overhead.py",
    "launches.py",
    "interval_coverage.py",
    "cost_coverage.py",
    "memory.py",
    "streaming.py",
    "ray_speed.py",
    "maps.py",
    "export_memory.py",
)

OF_THEIR_OWN = (
    "real_shapes.py",
    "corpus.py",
    "ray_speed.py",
    "launches.py",
    "interval_coverage.py",
    "cost_coverage.py",
    "export_memory.py",
    "streaming.py",
)
"""Scripts that take other flags; they run with their defaults."""


def main() -> int:
    folder = Path(__file__).parent
    flags = sys.argv[1:]
    failed = 0
    for script in SCRIPTS:
        own = [] if script in OF_THEIR_OWN else flags
        failed |= subprocess.run([sys.executable, str(folder / script), *own], check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
