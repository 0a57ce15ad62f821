"""The lookup that makes the document, and what it says when something is missing."""

from __future__ import annotations

import json

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.gpuwright.node.plugins.lookup.sbom import LookupModule
from conftest import REPOSITORY
from test_cyclonedx import GPUS, NODE, SOFTWARE


def test_a_document_for_each_host_with_the_toolkits_version() -> None:
    texts = LookupModule().run(["a", "b"], node=NODE, software=SOFTWARE, gpus=GPUS)
    made = [json.loads(text) for text in texts]
    assert [one["metadata"]["component"]["name"] for one in made] == ["a", "b"]
    version = str(yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["version"])
    assert made[0]["metadata"]["tools"]["components"] == [
        {"type": "application", "name": "gpuwright", "version": version}
    ]
    assert made[0]["serialNumber"] != made[1]["serialNumber"]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(AnsibleLookupError, match=r"'software'.*playbooks/software.yml --tags sbom \[sbom.input\]$"):
        LookupModule().run(["a"], node=NODE)
