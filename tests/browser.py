"""A page as headless Chromium shows it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
in_a_browser = pytest.mark.skipif(not BROWSER, reason="needs Chromium")
FRAME = """<title></title><iframe src="{name}" style="border: 0; width: {width}px; height: 900px"></iframe><script>
setInterval(() => {{
  const said = document.querySelector("iframe").contentDocument?.title ?? "";
  if (/^({{|error)/.test(said)) document.title = said;
}}, 50);
</script>"""


def said(page: Path, width: int, profile: Path) -> dict[str, Any]:
    """The JSON that a script of the page leaves as its title. In a frame: no window is narrower than 500 pixels."""
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(name=page.name, width=width), encoding="utf-8")
    done = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
         f"--window-size={max(width, 500)},900", f"--user-data-dir={profile}", "--virtual-time-budget=10000",
         "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = re.findall("<title>(.*?)</title>", done.stdout, re.DOTALL)[0]
    assert title.startswith("{"), title or "the page's script said nothing"
    found: dict[str, Any] = json.loads(title)
    return found
