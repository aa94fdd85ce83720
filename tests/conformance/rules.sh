#!/bin/sh
# Fails unless docs/exactly-once.md has the rules 1 to 36, each with the functions that keep it,
# each function is in the file that is named after it, and the sources cite no other rule.
#   rules.sh ROOT
set -eu
cd "$1"
doc=docs/exactly-once.md

numbers=$(sed -n 's/^\*\*\([0-9]*\)\. .*/\1/p' "$doc" | tr '\n' ' ')
if [ "$numbers" != "$(seq -s ' ' 36) " ]; then
    echo "the rules of $doc are not 1 to 36: $numbers"
    exit 1
fi

# Prints "function file" for each function: its file is the next one that the text names.
cited=$(awk '/^\*\*/ { rules++ } /^Kept:/ { kept = 1; n_kept++ } /^$/ { kept = 0 }
    kept {
        line = $0
        while (match(line, /`[a-z0-9_]+`|[a-z]+(\/[a-z0-9_]+)+\.[ch]/)) {
            word = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
            if (word ~ /^`/) {
                names[n++] = substr(word, 2, length(word) - 2)
            } else {
                for (i = 0; i < n; i++) { print names[i], word }
                n = 0
            }
        }
    }
    END { for (i = 0; i < n; i++) { print names[i], "nowhere" }
          if (n_kept != 36) { print n_kept "_rules_with_functions", "nowhere" } }' "$doc")
missing=$(echo "$cited" | while read -r name file; do
    grep -qsE "^([a-z].*\b)?$name\(" "$file" || echo "$name in $file"
done)
if [ -n "$missing" ]; then
    echo "$doc names what is not there:"
    echo "$missing"
    exit 1
fi

beyond=$(grep -rnoE "exactly-once\.md, rules? [0-9]+( and [0-9]+)?" --include='*.[ch]' . |
    grep -vE "rules? ([1-9]|1[0-9]|2[0-9])( and ([1-9]|1[0-9]|2[0-9]))?$" || true)
if [ -n "$beyond" ]; then
    echo "no such rule: $beyond"
    exit 1
fi
