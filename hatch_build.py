"""The README as PyPI shows it: links into the repository must be absolute there."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class WholeLinks(MetadataHookInterface):
    """The hook that hatchling finds when it builds."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the readme into the project's metadata."""
        repository = metadata["urls"]["Repository"]
        text = Path(self.root, "README.md").read_text("utf-8")
        text = re.sub(r"(!\[[^]]*\])\((?!https?:)", rf"\1({repository}/raw/main/", text)
        text = re.sub(r"\]\((?!https?:|#)", rf"]({repository}/blob/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
