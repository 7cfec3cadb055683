/* Lets the module take memory from AddressSanitizer. Envoy exports an allocator of its own, which would come first.
 * The linker replaces each name by that with __wrap_ in front (--wrap).
 */
#include <stddef.h>

void *__interceptor_malloc(size_t size);
void *__interceptor_calloc(size_t count, size_t size);
void *__interceptor_realloc(void *old, size_t size);
void __interceptor_free(void *old);
int __interceptor_posix_memalign(void **to, size_t alignment, size_t size);

void *__wrap_malloc(size_t size) { return __interceptor_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return __interceptor_calloc(count, size); }
void *__wrap_realloc(void *old, size_t size) { return __interceptor_realloc(old, size); }
void __wrap_free(void *old) { __interceptor_free(old); }
int __wrap_posix_memalign(void **to, size_t alignment, size_t size) {
  return __interceptor_posix_memalign(to, alignment, size);
}
