/* The end of README's C program, which tests put behind the function that stands there. It reads plain.nacre and
 * image.bin, prints the scores, and expects that a file that was cut is refused. */
#include <stdio.h>

int main(void) {
  static uint64_t file[1 << 15];
  float pixels[64], scores[10];
  FILE* model = fopen("plain.nacre", "rb");
  FILE* image = fopen("image.bin", "rb");
  if (model == NULL || image == NULL || fread(pixels, sizeof *pixels, 64, image) != 64) return 2;
  const size_t size = fread(file, 1, sizeof file, model);
  nacre_thread_pool* pool = nacre_thread_pool_open(2);
  nacre_status status = classify(file, size, pool, pixels, scores);
  for (int i = 0; i < 10 && status.code == 0; ++i) printf("%.9g\n", (double)scores[i]);
  if (status.code == 0) status = classify(file, size - 1, pool, pixels, scores);
  nacre_thread_pool_close(pool);
  fclose(image);
  fclose(model);
  return status.code != 0 && nacre_sentence(status.code)[0] != 0 ? 0 : 1;
}
