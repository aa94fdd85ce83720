#!/bin/sh
# scripts/precommit finds a violation of each quick gate in the index, passes the tree without
# one, looks at the index alone, and refuses the commit once it is installed. Needs
# clang-format-19 and codespell.
#
#   tests/precommit.sh SOURCE_DIR
set -eu
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cd "$1"
git ls-files -z | xargs -0 cp --parents -t "$copy"
cd "$copy"
git init -q
git config user.name planted
git config user.email planted@example.invalid
git add -A
git commit -q -m "all"

# $1: what its words must name; the planted violation is in the tree
found() {
    git add -A
    if scripts/precommit >planted.log 2>&1 || ! grep -q "$1" planted.log; then
        cat planted.log >&2
        echo "the planted violation is not found: $1" >&2
        exit 1
    fi
    git reset -q --hard
}

echo '/* A line more. */' >>common/rand.c
git add -A
scripts/precommit
git reset -q --hard

echo 'int   coxi_planted( void );' >>common/rand.h
found 'format has failed'
echo "T""eh quick brown fox." >>README.md
found 'spelling has failed'
yes '/* A line. */' | head -n 700 >>common/rand.c
found 'size has failed'
echo '#include "ps/store.h"' >>worker/planted.h
found 'layers has failed'
printf '/* A line. */\n#include "common/planted_b.h"\n' >common/planted_a.h
for pair in "b c" "c d" "d e" "e f" "f g" "g a"; do
    printf '/* A line. */\n#include "common/planted_%s.h"\n' "${pair#* }" >"common/planted_${pair% *}.h"
done
found 'structure has failed'
sed -i 's/X(queue_max, 262144)/X(queue_max, 262145)/' common/defaults.h
found 'options has failed'

# In the tree but not in the index: passes.
echo 'int   coxi_planted( void );' >>common/rand.h
scripts/precommit
git reset -q --hard

scripts/precommit --install
echo 'int   coxi_planted( void );' >>common/rand.h
if git commit -q -a -m "planted" 2>planted.log; then
    echo "the planted commit is not refused" >&2
    exit 1
fi
git reset -q --hard
echo '/* A line more. */' >>common/rand.c
git commit -q -a -m "a line more"
