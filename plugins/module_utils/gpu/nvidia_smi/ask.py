# SPDX-License-Identifier: Apache-2.0
"""The answer of the module nvidia_smi_info: all that nvidia-smi reports, and any additional fields asked for."""

from typing import Any, Dict, Sequence

from .csv import query_fields
from .query import query

LONGEST_SECONDS = 3600


def ask(timeout: float, executable: str, fields: Sequence[str]) -> Dict[str, Any]:
    """What `query` returns, with `fields` and `fields_problem` of `query_fields`.

    timeout     seconds for each of the two calls       executable  name in PATH, or full path, of nvidia-smi
    fields      those of nvidia-smi --query-gpu

    ValueError names the parameter that cannot be used; a driver that does not answer is a result, not an error.
    """
    # The comparison is written so that "nan" fails it, too.
    if not 0 < timeout <= LONGEST_SECONDS:
        raise ValueError(f"timeout is {timeout}: expected seconds above 0 and up to {LONGEST_SECONDS}")
    if not executable.strip():
        raise ValueError("executable is empty: expected a program such as nvidia-smi")
    try:
        records, problem = query_fields(fields, timeout, executable)
    except ValueError as error:
        raise ValueError(f"fields: {error}")
    return dict(query(timeout, executable), fields=records, fields_problem=problem)
