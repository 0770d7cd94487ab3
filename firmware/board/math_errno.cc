// What newlib's libm needs of a libc: where a range error is noted. Float networks call expf and tanhf; libc's own
// errno lies in .data with the rest of its state. Integer networks link neither this nor libm.
extern "C" int* __errno() {
  static int error;  // .bss
  return &error;
}
