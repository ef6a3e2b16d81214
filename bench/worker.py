"""The process that measures one peer: a variant comes in as a line of JSON, a measurement goes out."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, TextIO

from bench.cases import load_case
from bench.machine import versions
from bench.options import Options


def _answer(out: TextIO, **what: Any) -> None:
    print(json.dumps(what), file=out, flush=True)


def main(case_name: str, peer: str, options_text: str) -> None:
    # Output of libraries must not be mixed with the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    options = Options.from_text(options_text)
    options.place(0)
    try:
        with load_case(case_name).probe(peer, options) as probe:
            _answer(out, versions=versions())
            for line in sys.stdin:
                _answer(out, measure=probe(json.loads(line)))
    except Exception as error:  # any error is reported to the driver
        traceback.print_exc()
        _answer(out, error=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
