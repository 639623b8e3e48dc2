#!/bin/sh
# make.sh FOLDER: makes a small git repository with a bug and a test that shows it. Needs git; the test itself needs a C compiler.
set -eu

folder=$1
mkdir -p "$folder/src" "$folder/tests"
cd "$folder"

cat >src/range.h <<'C'
/* The sum of the whole numbers from FIRST to LAST, both included. */
int range_sum(int first, int last);
C
cat >src/range.c <<'C'
#include "range.h"

int range_sum(int first, int last)
{
    int sum = 0;

    for (int number = first; number < last; number++)
        sum += number;
    return sum;
}
C
cat >tests/test_range.c <<'C'
#include <stdio.h>

#include "../src/range.h"

int main(void)
{
    int sum = range_sum(1, 4);

    if (sum != 10) {
        printf("FAIL range_sum(1, 4) is %d, should be 10\n", sum);
        return 1;
    }
    printf("PASS range_sum\n");
    return 0;
}
C
cat >tests/run.sh <<'S'
#!/bin/sh
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -o "$folder/test_range" tests/test_range.c src/range.c
"$folder/test_range"
S
cat >README.md <<'M'
# range

One function and its test: `sh tests/run.sh`.
M
chmod +x tests/run.sh

# Nothing of the user's own git settings (hooks, signing, templates) has a part in a sample.
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
GIT_AUTHOR_NAME=sample GIT_AUTHOR_EMAIL=sample@example.invalid
GIT_COMMITTER_NAME=sample GIT_COMMITTER_EMAIL=sample@example.invalid
export GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
git init -q --template= -b main .
git add -A
git commit -q -m 'range: A function and a test that fails'
