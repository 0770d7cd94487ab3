// Newlib's libm needs only one function of a libc: the address of errno for a range error. Float networks call expf
// and tanhf. libc's own errno lies in .data with the rest of its state. Integer networks link neither this nor libm.
extern "C" int* __errno() {
  static int error;  // .bss
  return &error;
}
