#!/usr/bin/env bash
# release-notes.sh TAG: prints the section of CHANGELOG.md for a tag such as v0.1.0. It fails unless Cargo.toml and the
# chart have this version, and, in a workflow, unless Cargo.toml names its repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=SCRIPTDIR/stamp.sh
. e2e/tools/stamp.sh
tag=${1:?usage: release-notes.sh TAG}

die() { echo "release-notes: $*" >&2; exit 1; }

[[ $tag == "v$version" ]] || die "the tag is $tag, but Cargo.toml has the version $version"
for field in version appVersion; do
  found=$(sed -n "s/^$field: *\"*\([^\"]*\)\"*$/\1/p" controller/deploy/chart/Chart.yaml)
  [[ $found == "$version" ]] || die "Chart.yaml has the $field $found, Cargo.toml $version"
done
[[ -z ${GITHUB_REPOSITORY:-} || $repository == */"$GITHUB_REPOSITORY" ]] ||
  die "Cargo.toml has the repository $repository, this is $GITHUB_REPOSITORY"
# Up to the next version, or the links at the end.
notes=$(awk -v head="## [$version]" 'index($0, head) == 1 { on = 1; next } /^## |^\[/ { on = 0 } on' CHANGELOG.md)
[[ $notes == *[![:space:]]* ]] || die "CHANGELOG.md has no section [$version]"
echo "$notes"
