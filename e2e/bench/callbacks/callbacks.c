/* A dynamic module that makes one callback in each request, and nothing else: what Envoy's side of it costs. The
 * filter's configuration is the callback's name, or anything else for a module that does nothing.
 *
 *   cc -O2 -shared -fPIC -o libcallbacks.so callbacks.c
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  const char *start;
  size_t length;
} buffer;

typedef struct {
  buffer name, value;
} field;

#define CALLBACK(name) envoy_dynamic_module_callback_##name
#define HOOK(name) envoy_dynamic_module_on_http_filter_##name

extern bool CALLBACK(http_get_header)(void *, int, buffer, buffer *, size_t, size_t *);
extern bool CALLBACK(http_get_headers)(void *, int, field *);
extern bool CALLBACK(http_set_header)(void *, int, buffer, buffer);
extern bool CALLBACK(http_filter_get_attribute_string)(void *, int, buffer *);
extern bool CALLBACK(http_get_metadata_string)(void *, int, buffer, buffer, buffer *);
extern bool CALLBACK(http_set_upstream_override_host)(void *, buffer, bool);
extern bool CALLBACK(http_get_cluster_name)(void *, buffer *);
extern int CALLBACK(http_filter_increment_counter)(void *, size_t, buffer *, size_t, uint64_t);
extern int CALLBACK(http_filter_config_define_counter)(void *, buffer, buffer *, size_t, size_t *);
extern const void *CALLBACK(get_most_specific_route_config)(void *);

static char which[64];
static size_t counter;

static buffer text(const char *text) { return (buffer){text, strlen(text)}; }
static bool is(const char *name) { return strcmp(which, name) == 0; }

const char *envoy_dynamic_module_on_program_init(void) { return "v0.2.0"; }

const void *HOOK(config_new)(void *envoy, buffer name, buffer config) {
  (void)name;
  memcpy(which, config.start, config.length < 63 ? config.length : 63);
  CALLBACK(http_filter_config_define_counter)(envoy, text("requests"), NULL, 0, &counter);
  return which;
}
void HOOK(config_destroy)(const void *config) { (void)config; }
const void *HOOK(new)(const void *config, void *envoy) {
  (void)envoy;
  return config;
}
void HOOK(destroy)(const void *filter) { (void)filter; }

int HOOK(request_headers)(void *envoy, const void *filter, bool end) {
  buffer answer;
  field all[64];
  size_t total;
  (void)filter, (void)end;
  if (is("get_header")) CALLBACK(http_get_header)(envoy, 0, text("cookie"), &answer, 0, &total);
  if (is("get_inline_header")) CALLBACK(http_get_header)(envoy, 0, text("x-request-id"), &answer, 0, &total);
  if (is("get_headers")) CALLBACK(http_get_headers)(envoy, 0, all);
  if (is("set_header")) CALLBACK(http_set_header)(envoy, 0, text("cookie"), text("a=1"));
  if (is("remove_header")) CALLBACK(http_set_header)(envoy, 0, text("cookie"), (buffer){NULL, 0});
  if (is("get_metadata")) CALLBACK(http_get_metadata_string)(envoy, 1, text("limpet"), text("session"), &answer);
  if (is("get_cluster_name")) CALLBACK(http_get_cluster_name)(envoy, &answer);
  if (is("set_override_host")) CALLBACK(http_set_upstream_override_host)(envoy, text("127.0.0.1:18081"), false);
  if (is("increment_counter")) CALLBACK(http_filter_increment_counter)(envoy, counter, NULL, 0, 1);
  if (is("get_route_config")) CALLBACK(get_most_specific_route_config)(envoy);
  return 0;
}
int HOOK(response_headers)(void *envoy, const void *filter, bool end) {
  buffer answer;
  (void)filter, (void)end;
  if (is("get_upstream_address")) CALLBACK(http_filter_get_attribute_string)(envoy, 41, &answer);
  return 0;
}

/* What Envoy does not load a module without. */
int HOOK(request_body)(void *envoy, const void *filter, bool end) { return 0 * end; }
int HOOK(request_trailers)(void *envoy, const void *filter) { return 0; }
int HOOK(response_body)(void *envoy, const void *filter, bool end) { return 0 * end; }
int HOOK(response_trailers)(void *envoy, const void *filter) { return 0; }
void HOOK(stream_complete)(void *envoy, const void *filter) {}
void HOOK(scheduled)(void *envoy, const void *filter, uint64_t event) {}
void HOOK(downstream_above_write_buffer_high_watermark)(void *envoy, const void *filter) {}
void HOOK(downstream_below_write_buffer_low_watermark)(void *envoy, const void *filter) {}
void HOOK(http_callout_done)(void) {}
void HOOK(http_stream_headers)(void) {}
void HOOK(http_stream_data)(void) {}
void HOOK(http_stream_trailers)(void) {}
void HOOK(http_stream_complete)(void) {}
void HOOK(http_stream_reset)(void) {}
