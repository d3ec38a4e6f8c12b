"""The hook of MkDocs (`hooks` in mkdocs.yml): adds pages for files outside of docs/, and redirects links to them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

from reference import outside

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_CODE = re.compile(r"`[^`\n]+`")
ICON = "src/secl/server/http/assets/icon.svg"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write the version at the foot of every page."""
    source = (outside.ROOT / "src/secl/__init__.py").read_text(encoding="utf-8")
    config.copyright = f"secl {re.findall(r'__version__ = .(.+).$', source, re.MULTILINE)[0]}, {config.copyright}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside of docs/."""
    docs = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    for place, text in outside.pages(docs):
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(outside.ROOT / ICON)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """Point links to files outside of docs/ at their pages, and show "|" in code inside a table correctly."""
    written = Path(page.file.abs_src_path or "").is_relative_to(config.docs_dir)
    text = outside.relinked(markdown, f"docs/{page.file.src_uri}") if written else markdown
    return _CODE.sub(lambda match: match[0].replace(r"\|", "|"), text)
