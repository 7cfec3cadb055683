#!/usr/bin/env bash
# Builds the pages of docs/ as a site in dist/site, with the pages and files outside of docs/ that they link to, and
# follows the links of the site.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=0.5.4

mdbook=$(command -v mdbook) || mdbook=.tools/bin/mdbook
if [[ $("$mdbook" --version 2>/dev/null) != "mdbook v$version" ]]; then
  mdbook=.tools/bin/mdbook
  if [[ $("$mdbook" --version 2>/dev/null) != "mdbook v$version" ]]; then
    echo "Building mdbook $version into .tools (3 minutes, once)"
    cargo install --locked --root .tools --no-default-features --features search "mdbook@$version"
  fi
fi
rm -rf dist/book dist/site
python3 e2e/tools/site.py collect dist/book
"$mdbook" build dist/book --dest-dir "$PWD/dist/site"
python3 e2e/tools/site.py check dist/site
rm -rf dist/book
echo "The site is in dist/site: open dist/site/docs/index.html"
