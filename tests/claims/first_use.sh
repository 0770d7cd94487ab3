#!/usr/bin/env bash
# Claim first_use: README works from top to bottom in a fresh clone. Every command of its sh blocks runs, in order and
# unchanged. Its C++ program compiles against the installed files, runs, and reads the digit that `nacre run` reads.
# The programs of docs/ compile too.
#
#   tests/claims/first_use.sh            with the tool and the library of a build (NACRE_BUILD, else build/test): demo.sh and the two lines
#                                        of meson are passed over and counted
#   tests/claims/first_use.sh --whole    nothing is passed over, the Python package included
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
whole=false
[ "${1-}" != --whole ] || whole=true
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
verdict=shown failures=
fail() { verdict='NOT SHOWN'; failures+="[$1] "; }

# Clones the committed files. If the checkout has no history, copies its files.
git clone -q "$root" "$work/nacre" 2>/dev/null || { mkdir "$work/nacre"; tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/nacre" -xf -; }
cd "$work/nacre"
passed_over='^$'
if ! $whole; then
  build=$(realpath "${NACRE_BUILD:-$root/build/test}")
  mkdir -p build/test
  ln -s "$build/tools" build/test/tools
  meson install -C "$build" --no-rebuild --quiet --tags devel --destdir "$work/root" >"$work/install.log" 2>&1 || { tail -n 5 "$work/install.log"; fail "meson install"; }
  prefix=$work/root$(sed -n 's/^prefix=//p' "$(find "$work/root" -name nacre.pc)")
  mv "$prefix" build/prefix
  sed -i "s|^prefix=.*|prefix=$PWD/build/prefix|" "$(dirname "$(find build/prefix -name nacre.pc)")"/nacre*.pc
  passed_over='^(\./tools/demo\.sh|meson (setup|install) .*)$'
fi

# fences LANGUAGE FILE: prints the lines of the file's code blocks in this language.
fences() { awk -v begin="\`\`\`$1" '$0 == begin {on = 1; next} $0 == "```" {on = 0} on' "$2"; }
# Prints the commands of README, one a line; continued lines are joined.
commands_of() { fences sh "$1" | sed -e ':join' -e '/\\$/{N; s/\\\n *//; b join' -e '}'; }

commands_of README.md >"$work/commands"
commands=0 over=0 first=
begun=$SECONDS
{
  echo 'set -euo pipefail'
  while IFS= read -r line; do
    if [[ $line =~ $passed_over ]]; then over=$((over + 1)); continue; fi
    commands=$((commands + 1))
    printf 'printf "\\n$ %%s\\n" %q\n%s\necho "  (%s $SECONDS s)"\n' "$line" "$line" "after"
  done <"$work/commands"
} >"$work/script"
(bash "$work/script") >"$work/said" 2>&1 || { tail -n 20 "$work/said"; fail "a command of README"; }
$whole && cat "$work/said"
took=$((SECONDS - begun))
first=$(awk '/^\$ nacre/ {on = 1} on && /^  \(after/ {gsub(/[^0-9]/, ""); print; exit}' "$work/said")
for file in digits.nacre report.html tuned.nacre run.html train.nacre; do [ -s "$file" ] || fail "README's commands make no $file"; done
grep -q '^ *top1\|right' "$work/said" || fail "eval prints no accuracy"

# ---- The program of C++ ----
programs=0
PKG_CONFIG_PATH=$(dirname "$(find build/prefix -name nacre.pc -print -quit)")
export PKG_CONFIG_PATH
flags="-std=c++20 -Wall -Wextra -Werror $(pkg-config --cflags nacre)"
fences cpp README.md >classify.cc
cat tests/claims/readme_classify.cc >>classify.cc
export PATH="$PWD/build/test/tools:$PATH"
nacre convert tools/samples/digits.onnx -o plain.nacre >/dev/null
python3 -c '
import struct, sys
data = open("tools/samples/digits_images.npy", "rb").read()
first = 10 + int.from_bytes(data[8:10], "little")  # skips the header
sys.stdout.buffer.write(struct.pack("<64f", *data[first:first + 64]))' >image.bin
if g++ $flags classify.cc -o classify $(pkg-config --libs nacre) 2>classify.log; then
  programs=$((programs + 1))
  ./classify >own.txt || fail "README's program does not run"
  nacre run plain.nacre --input image.bin --kernels reference --json | awk '/"values"/ {on = 1; next} /\]/ {on = 0} on {gsub(/[ ,]/, ""); print}' >its.txt
  paste own.txt its.txt | awk 'NF != 2 || ($1 - $2) ^ 2 > 1e-12 * ($2 ^ 2) {bad = 1} END {exit bad || NR != 10}' || fail "README's program and nacre run give other numbers"
else
  head -n 5 classify.log; fail "README's program does not compile"
fi
# The program of C, with a main and the same image. Fast kernels add in another order: the scores may differ by 1e-5.
fences c README.md >classify.c
cat tests/claims/readme_classify.c >>classify.c
if cc -std=c99 -Wall -Wextra -Wconversion -Werror classify.c -o classify_c $(pkg-config --cflags --libs nacre-x86 nacre-threads) 2>classify.log; then
  programs=$((programs + 1))
  ./classify_c >c.txt || fail "README's program of C does not run, or takes a file that was cut"
  paste c.txt its.txt | awk 'NF != 2 || ($1 - $2) ^ 2 > 1e-10 {bad = 1} END {exit bad || NR != 10}' || fail "README's program of C and nacre run give other numbers"
else
  head -n 5 classify.log; fail "README's program of C does not compile"
fi
for page in docs/training.md docs/pc.md; do
  fences cpp $page >page.cc
  if g++ $flags -fsyntax-only page.cc 2>page.log; then programs=$((programs + 1)); else head -n 5 page.log; fail "$page's program does not compile"; fi
done

# ---- Python ----
python="left to python_parity"
if $whole; then
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" -q install . numpy >"$work/pip.log" 2>&1 || { tail "$work/pip.log"; fail "pip install ."; }
  fences python README.md >first.py
  "$work/venv/bin/python" first.py || fail "README's program of Python"
  python="installed and its program run"
fi

for file in $(grep -oE '`(docs|ports|tools|schema|engine|tests|bench)/[A-Za-z0-9_./]*`' README.md docs/*.md | tr -d '`' | sed 's/^[^:]*://' | sort -u); do
  [ -e "$file" ] || [ -e "${file%.}" ] || case $file in *:*) ;; *) fail "$file, which README or docs name, is not there" ;; esac
done

$whole && echo "from the clone to the first result of nacre ${first:-?} s, to the last line of README $took s"
echo "CLAIM first_use $verdict: ${failures}$commands commands of README run as they stand in a fresh clone, $over passed over (the build's own stand for them); $programs programs of C++ and C of README and docs compile; Python $python"
[ "$verdict" = shown ]
