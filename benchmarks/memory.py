"""Peak memory of one case as JSON; `benchmarks.measure.peak_memory` runs this as a process."""

import argparse
import json
import time

from benchmarks.measure import resident_peak


def main() -> None:
    """Measure one function at one size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--implementation", required=True)
    parser.add_argument("--mode", choices=("eager", "graph", "xla"), required=True)
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--features", type=int, required=True)
    parser.add_argument("--passes", choices=("forward", "both"), required=True)
    options = parser.parse_args()

    from benchmarks import cases

    function = cases.coda(options.implementation)
    function = cases.both_passes(function) if options.passes == "both" else function
    small = cases.tensors(options.heads, 64, options.features)
    # The first call loads code and libraries, which belong to the base.
    cases.ready(function, small, options.mode)()
    arguments = cases.tensors(options.heads, options.length, options.features)
    base, start = resident_peak(), time.perf_counter()
    cases.ready(function, arguments, options.mode)()
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {"base_mib": base, "above_base_mib": resident_peak() - base, "first_call_s": seconds}
        )
    )


if __name__ == "__main__":
    main()
