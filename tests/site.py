"""What mkdocs calls while it builds the site: decisions are listed, and old addresses of pages redirect."""

from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> None:
    """Lists every decision of docs/decisions in the navigation."""
    decisions = sorted(Path(config.docs_dir, "decisions").glob("*.md"))
    for section in config.nav or ():
        for entries in section.values():
            for entry in entries:
                if isinstance(entry, dict) and "Decisions" in entry:
                    entry["Decisions"] = [f"decisions/{page.name}" for page in decisions]


def on_post_build(config: MkDocsConfig) -> None:
    """Writes a page that redirects, for each line of `extra.moved` in mkdocs.yml: old name → new name."""
    site = Path(config.site_dir)
    for old, new in config.extra["moved"].items():
        target = f"{new}.html"
        if not (site / target).exists():
            raise FileNotFoundError(f"mkdocs.yml: extra.moved: {old}: docs/{new}.md is no page")
        link = escape(target)
        (site / f"{old}.html").write_text(
            f'<!doctype html><title>Moved</title><link rel="canonical" href="{link}">'
            f'<meta http-equiv="refresh" content="0; url={link}"><a href="{link}">{link}</a>\n'
        )
