// The model file, read in place from flash: -DNACRE_MODEL='"path"'. A relative path is sought where
// the compiler runs and in its -I folders. The compiler's dependency file does not name the model.
// 64 bytes is the alignment of the file's own segments (schema/FORMAT.md).

#ifndef NACRE_MODEL
#error "model_image.S: no model named, expected -DNACRE_MODEL with a quoted path"
#endif

    .section .model, "a", %progbits
    .balign 64
    .global nacre_model_begin
    .global nacre_model_end
nacre_model_begin:
    .incbin NACRE_MODEL
nacre_model_end:
