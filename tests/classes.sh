# Decides which tests a run has. tests/classes.txt gives the class of each test that does not always run.
#
#   . tests/classes.sh
#   in_this_run FOLDER/NAME || ...    false: this run leaves the test out, and build/left_out.txt gets its name
#   third_of_commit                   prints 0, 1 or 2, by the hash of the commit that is checked out
#
# NACRE_THIRD is the third of class full that runs. If it is empty, all of the class runs, or none with NACRE_FULL=0.
# NACRE_LONG=1 adds class long.
classes_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

third_of_commit() { echo $((16#$(git -C "$classes_root" rev-parse HEAD | cut -c 1-8) % 3)); }

in_this_run() {
  local class third
  read -r class third < <(awk -v name="$1" '$3 == name {print $1, $2; found = 1} END {if (!found) print "ci -"}' "$classes_root/tests/classes.txt")
  mkdir -p "$classes_root/build"
  echo "$1" >>"$classes_root/build/asked.txt"
  case $class in
    ci) return 0 ;;
    full)
      case ${NACRE_THIRD-} in
        "$third") return 0 ;;
        '') [ "${NACRE_FULL:-1}" = 0 ] || return 0 ;;
      esac
      ;;
    long) [ "${NACRE_LONG:-0}" != 1 ] || return 0 ;;
  esac
  echo "$1" >>"$classes_root/build/left_out.txt"
  return 1
}
