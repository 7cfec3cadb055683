# Sourced by what makes images and archives: exports when and of what they are made, by the last commit and not by the
# clock, and where they are published. A commit is named only if it has all that is in the checkout.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
SOURCE_REVISION=
[[ -n $(git status --porcelain 2>&1) ]] || SOURCE_REVISION=$(git rev-parse HEAD)
# of KEY: what Cargo.toml says first.
of() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" Cargo.toml | head -n 1; }
version=$(of version)
repository=$(of repository)
registry=$(of registry)
export SOURCE_DATE_EPOCH SOURCE_REVISION version repository registry
