/* A dynamic module of somebody else. Envoy hands what it returns for a route to the filter that the entry is named
 * for, whatever module that is of. This one returns a number, so whoever takes it for an address of his own crashes.
 */
#include <stddef.h>

typedef struct {
  const char *start;
  size_t length;
} buffer;

const char *envoy_dynamic_module_on_program_init(void) { return "v0.2.0"; }

const void *envoy_dynamic_module_on_http_filter_per_route_config_new(buffer name, buffer config) {
  (void)name;
  (void)config;
  return (const void *)1;
}

void envoy_dynamic_module_on_http_filter_per_route_config_destroy(const void *config) { (void)config; }
