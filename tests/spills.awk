# Reads `objdump -d --no-show-raw-insn` of functions that are tiles, and prints for each innermost loop that multiplies
#
#   SPILL function: instruction      a vector register that is stored to or read from the stack in the loop
#
# and in the end "loops N". A loop is what stands between a jump backwards and its target; the innermost ones hold no other.
function hexadecimal(text,   i, value) {
  value = 0
  for (i = 1; i <= length(text); ++i) value = 16 * value + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}
function end_function(   i, j, from, inner, works, bad) {
  for (i = 0; i < count; ++i) {
    if (!(i in target) || target[i] > address[i]) continue
    for (from = i; from > 0 && address[from] > target[i]; --from) continue
    inner = works = 1
    for (j = from; j < i; ++j) if (j in target && target[j] >= target[i] && target[j] <= address[j]) inner = 0
    if (!inner) continue
    works = bad = 0
    for (j = from; j <= i; ++j) {
      if (text[j] ~ /fmadd|dpbusd|dpbf16ps|pmaddwd/) works = 1
      if (text[j] ~ /[xyz]mm/ && (text[j] ~ /\(%rsp[,)]/ || (frame && text[j] ~ /\(%rbp[,)]/))) bad = bad "\n  SPILL " name ": " text[j]
    }
    if (!works) continue
    ++loops
    if (bad != 0) print substr(bad, 2)
  }
  count = frame = 0
  delete target
}
/^[0-9a-f]+ <.*>:$/ {
  end_function()
  wanted = $0 ~ pattern
  name = $0
  sub(/^[0-9a-f]+ </, "", name)
  name = substr(name, 1, 140)
  next
}
wanted && /^ *[0-9a-f]+:\t/ {
  split($1, parts, ":")
  address[count] = hexadecimal(parts[1])
  text[count] = $0
  sub(/^ *[0-9a-f]+:\t/, "", text[count])
  if (text[count] ~ /^mov +%rsp,%rbp/) frame = 1  # else %rbp is a register like others
  if (text[count] ~ /^j[a-z]+ +[0-9a-f]+ /) {
    split(text[count], words, / +/)
    target[count] = hexadecimal(words[2])
  }
  ++count
}
END {
  end_function()
  print "loops " loops + 0
}
