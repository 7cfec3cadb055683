"""The site of the documentation, around mdBook, which takes pages from one folder alone.

    site.py collect FOLDER   lays out the pages of docs/ with the pages and files outside of docs/ that they link to, at
                             the same paths relative to each other: links work on the site as they do on a code host
    site.py check SITE       follows every link between files of the site
"""

import html.parser
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def linked(page):
    """The files that a page links to, relative to the root of the repository."""
    text = FENCE.sub("", page.read_text())
    for target in LINK.findall(text):
        file = target.split("#")[0]
        if file and not re.match(r"[a-z+.-]+:", file):
            yield (page.parent / file).resolve().relative_to(pathlib.Path.cwd())


def as_index(text):
    """mdBook makes index.html of README.md, but leaves links to it as they are."""
    return text.replace("README.md", "index.md")


def title(page):
    return next(line[2:].strip() for line in page.read_text().splitlines() if line.startswith("# "))


def collect(folder):
    docs = pathlib.Path("docs")
    pages = sorted(path for path in docs.rglob("*.md") if path.name != "SUMMARY.md")
    others, files, waiting = [], set(), list(pages)
    while waiting:
        for target in linked(waiting.pop()):
            if target.suffix == ".md":
                if target not in pages and target not in others:
                    others.append(target)
                    waiting.append(target)
            else:
                files.add(target)
    for path in [*pages, *others]:
        to = folder / as_index(str(path))
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(LINK.sub(lambda link: as_index(link.group()), path.read_text()))
    for file in (file for file in files if file.is_file()):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / file)
    for directory in (file for file in files if file.is_dir()):
        shutil.copytree(directory, folder / directory, ignore=shutil.ignore_patterns("*.md"), dirs_exist_ok=True)
        # On a site a folder shows nothing by itself.
        for path, folders, names in os.walk(folder / directory):
            path = pathlib.Path(path)
            if path.relative_to(folder) / "README.md" in others:
                continue
            items = "".join(f'<li><a href="{name}">{name}</a></li>' for name in sorted([*folders, *names]))
            index = f"<!DOCTYPE html><title>{path.relative_to(folder)}</title><ul>{items}</ul>\n"
            (path / "index.html").write_text(index)
    shutil.copy(docs / "book.toml", folder)
    summary = LINK.sub(r"](docs/\1)", (docs / "SUMMARY.md").read_text())
    chapters = "".join(f"- [{title(page)}]({page})\n" for page in sorted(others))
    (folder / "SUMMARY.md").write_text(as_index(f"{summary}\n# In the repository\n\n{chapters}"))
    print(f"{len(pages)} pages of docs/, {len(others)} others, {len(files)} linked files and folders")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.targets.add(attributes["href"])


def check(site):
    # print.html has all pages in one; 404.html may stand for any.
    others = ("print.html", "404.html", "toc.html")
    pages = {path: Page(path) for path in site.rglob("*.html") if path.name not in others}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            url = urllib.parse.urlsplit(target)
            if url.scheme:
                continue
            file = pathlib.Path(path.parent, urllib.parse.unquote(url.path)).resolve() if url.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                broken.append(f"{path.relative_to(site)}: {target}")
            elif url.fragment and file in pages and urllib.parse.unquote(url.fragment) not in pages[file].ids:
                broken.append(f"{path.relative_to(site)}: {target}: no such place there")
    if broken:
        sys.exit("\n".join(["Broken links of the site:", *sorted(broken)]))
    print(f"{len(pages)} pages, and every link between them leads somewhere")


if __name__ == "__main__":
    command, folder = sys.argv[1:]
    {"collect": collect, "check": check}[command](pathlib.Path(folder).resolve())
