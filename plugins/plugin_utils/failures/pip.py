# SPDX-License-Identifier: Apache-2.0
"""What pip prints when it cannot install an environment, as a table of causes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpuwright.node.plugins.module_utils.host.written.told import printable, without_secrets

from .cause import Cause, first_cause, what

LONGEST = 600
PIP, REQUESTS = "pip 20 to 26", "pip's requests and urllib3"
# First match wins.
CAUSES = (
    Cause(
        "pip.space",
        r"No space left on device|Errno 28|Disk quota exceeded",
        "there is not enough disk space for the environment",
        "Free space (`df -h /opt /tmp`), then run again; the current environment is still in use.",
        PIP,
    ),
    Cause(
        "pip.hash",
        r"DO NOT MATCH THE HASHES|[Hh]ashes are required|Expected sha256|hash mismatch",
        "a wheel is not the one of the lock file, or has no hash there",
        "Do not switch the hashes off. The download is damaged, or a mirror has built the wheel anew: compare the file "
        "with the index's, or name another index in framework_pytorch_index_url.",
        PIP,
    ),
    Cause(
        "pip.proxy",
        r"ProxyError|407 Proxy|Cannot connect to proxy",
        "the proxy refuses, or is not known",
        "Correct https_proxy and its login, as it is set for the node.",
        REQUESTS,
    ),
    Cause(
        "pip.certificate",
        r"SSLCertVerificationError|CERTIFICATE_VERIFY_FAILED|certificate verify failed",
        "the node does not trust the certificate of the index",
        "Install its authority's certificate in the system, and name the file in PIP_CERT. Keep the verification.",
        REQUESTS,
    ),
    Cause(
        "pip.refused",
        r"40[13] (Client )?Error|401 Unauthorized|403 Forbidden",
        "the index refuses this node",
        "Correct the login of the index in the inventory, or its rules there.",
        REQUESTS,
    ),
    Cause(
        "pip.plain_http",
        r"not a trusted or secure host",
        "the index is plain http, which pip does not trust",
        "Name an https address in framework_pytorch_index_url, or a folder in framework_pytorch_wheelhouse.",
        PIP,
    ),
    Cause(
        # pip ends with "No matching distribution" then, too, and says this only before.
        "pip.name",
        r"Name or service not known|Temporary failure in name resolution|getaddrinfo failed|NameResolutionError",
        "the name of the index's server is not known on the node",
        "`getent hosts` with that name must answer there: correct DNS (/etc/resolv.conf), or set a proxy.",
        REQUESTS,
    ),
    Cause(
        "pip.unreachable",
        r"NewConnectionError|ConnectTimeout|Read timed out|Connection (refused|reset|aborted)|Max retries exceeded"
        r"|Network is unreachable|No route to host|50[234] Server Error|IncompleteRead",
        "the index cannot be reached",
        "Check the network path to it (`curl -I` its address), then run again: what is there already is kept.",
        REQUESTS,
    ),
    Cause(
        "pip.python",
        r"requires a different Python|Requires-Python|not a supported wheel on this platform",
        "a wheel is not for this Python or processor",
        "The lock file is for another Python: `ansible-playbook playbooks/plan.yml` names the one that fits.",
        PIP,
    ),
    Cause(
        "pip.missing",
        r"No matching distribution found for (?P<what>\S+)|satisfies the requirement (?P<what2>\S+)",
        "the index does not have {what}",
        "Name an index or a folder of wheels that has it (framework_pytorch_index_url, framework_pytorch_wheelhouse).",
        PIP,
    ),
    Cause(
        "pip.rights",
        r"Permission denied: '(?P<what>[^']+)'|Errno 13|Read-only file system",
        "the environment's folder cannot be written{of_what}",
        "`findmnt -T /opt/gpuwright` shows whether it is read-only; `namei -l` shows who may write there.",
        PIP,
    ),
)
# Where a second try of the same command cannot help.
FINAL = (
    "pip.hash",
    "pip.plain_http",
    "pip.refused",
    "pip.certificate",
    "pip.python",
    "pip.missing",
    "pip.rights",
    "pip.space",
)


def pip_failure(result: Mapping[str, Any]) -> dict[str, Any]:
    """C(id) of the cause, C(text), one paragraph, and C(final): whether a second try cannot help.

    result  the failed one of ansible.builtin.pip
    """
    lines = [str(result.get(name) or "") for name in ("msg", "stderr", "stdout")]
    said = printable(re.sub(r"\s+", " ", without_secrets(" ".join(dict.fromkeys(lines))))).strip()
    found = first_cause(CAUSES, said)
    if found is None:
        text = f"The environment could not be installed. pip said: {said[-LONGEST:] or 'nothing'}"
        return {"id": "pip.failed", "text": text, "final": False}
    cause, match = found
    thing = what(match).strip()
    words = {"what": thing, "of_what": f" ({thing})" if thing else ""}
    start = max(0, min(match.start() - 100, len(said) - LONGEST))
    problem, step = cause.problem.format(**words), cause.next.format(**words)
    text = f"The environment could not be installed: {problem}. pip said: {said[start : start + LONGEST]} {step}"
    return {"id": cause.id, "text": text, "final": cause.id in FINAL}
