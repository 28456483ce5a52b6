#!/usr/bin/env bash
# Runs every test executable of this bundle, one line each, on the device that the variable
# WARPSMITH_DEVICE names. Ends with status 1 when one failed.
#
#   run-tests.sh [PREFIX]
#
# PREFIX is a command to run each under, in one word:
#   run-tests.sh 'compute-sanitizer --tool memcheck --error-exitcode 1'
set -uo pipefail

bundle="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
[[ -d $bundle/tests ]] || tar -xJf "$bundle/executables.tar.xz" -C "$bundle" || exit 1
read -ra prefix <<<"${1:-}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT

# Tests find their files from the top of the tree, and the program by its path.
cd "$bundle/.." || exit 1
export WARPSMITH_BIN="$bundle/warpsmith"

shopt -s nullglob
tests=("$bundle"/tests/*)
if [[ ${#tests[@]} -eq 0 ]]; then
    echo "this bundle has no tests" >&2
    exit 1
fi
failed=0
for test in "${tests[@]}"; do
    start=$SECONDS
    "${prefix[@]}" "$test" >"$log" 2>&1
    status=$?
    counts="$(sed -n 's/^test result: [a-zA-Z]*\. \(.* failed; [0-9]* ignored\);.*/\1/p' "$log")"
    verdict=ok
    if [[ $status -ne 0 ]]; then
        verdict=FAILED
        failed=$((failed + 1))
    fi
    printf '%-6s  %-40s  %s  (%d s)\n' "$verdict" "${test##*/}" \
        "${counts:-no test result, status $status}" $((SECONDS - start))
    if [[ $status -ne 0 ]]; then
        tail -n 100 "$log" | sed 's/^/    /'
    fi
done
if [[ $failed -ne 0 ]]; then
    echo "$failed test executables failed"
    exit 1
fi
