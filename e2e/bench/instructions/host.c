/* The smallest Envoy that the dynamic module takes: it loads the library, makes one configuration, and has its hooks
 * called for request after request, without a network. It answers what the module asks from a few fields.
 *
 * host LIBRARY WHAT COUNT: WHAT is one of those in `kinds` below. Says how many callbacks and allocations there were,
 * those of the start included.
 *
 * Callbacks that an Envoy may lack are here too, so that a module that begins to use one is measured with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *start;
  size_t length;
} buffer;

typedef struct {
  buffer name, value;
} field;

/* What the tests of the module count as well. */
static unsigned long callbacks, allocations;

/* The allocator, counted. The library finds these before those of the C library. */
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t size) {
  allocations++;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  allocations++;
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  allocations++;
  return __libc_realloc(memory, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  allocations++;
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : 12;
}

/* The request and the response of a stream. */
enum { REQUEST, REQUEST_TRAILERS, RESPONSE, MAPS };
enum { FIELDS = 24 };

typedef struct {
  field fields[FIELDS];
  size_t count;
} map;

typedef struct {
  map maps[MAPS];
  bool steered;
  /* Of the response that begins a session: `limpet-session=...`. */
  char cookie[512];
  size_t cookie_length;
} stream;

static const char SESSION[] = "shop/HTTPRoute/shop/web/all";
static const char HOST[] = "10.0.0.7:8080";
static const char CLUSTER[] = "backends";

static buffer text(const char *of) { return (buffer){of, strlen(of)}; }

static bool equal(buffer one, buffer other) {
  return one.length == other.length && memcmp(one.start, other.start, one.length) == 0;
}

static void push(map *map, buffer name, buffer value) {
  if (map->count == FIELDS) abort();
  map->fields[map->count++] = (field){name, value};
}

static void drop(map *map, buffer name) {
  size_t kept = 0;
  for (size_t i = 0; i < map->count; i++)
    if (!equal(map->fields[i].name, name)) map->fields[kept++] = map->fields[i];
  map->count = kept;
}

#define CALLBACK(answer, name, ...) \
  answer envoy_dynamic_module_callback_##name(__VA_ARGS__); \
  answer envoy_dynamic_module_callback_##name(__VA_ARGS__)

/* Logs and counters. */

CALLBACK(void, log, int level, buffer line) {
  callbacks++;
  if (level > 3) fprintf(stderr, "%.*s\n", (int)line.length, line.start);
}

CALLBACK(void, log_v2, int level, buffer line, buffer file, uint32_t number) {
  (void)file;
  (void)number;
  envoy_dynamic_module_callback_log(level, line);
}

CALLBACK(int, http_filter_config_define_counter, void *config, buffer name, buffer *labels, size_t count, size_t *id) {
  static size_t defined;
  (void)config, (void)name, (void)labels, (void)count;
  callbacks++;
  *id = defined++;
  return 0;
}

CALLBACK(int, http_filter_increment_counter, void *of, size_t id, buffer *labels, size_t count, uint64_t by) {
  (void)of, (void)id, (void)labels, (void)count, (void)by;
  callbacks++;
  return 0;
}

CALLBACK(int, http_filter_config_increment_counter, void *of, size_t id, buffer *labels, size_t count, uint64_t by) {
  return envoy_dynamic_module_callback_http_filter_increment_counter(of, id, labels, count, by);
}

/* Headers. */

CALLBACK(bool, http_get_header, stream *of, int type, buffer name, buffer *value, size_t index, size_t *total) {
  map *map = &of->maps[type];
  size_t found = 0;
  callbacks++;
  *value = (buffer){0};
  for (size_t i = 0; i < map->count; i++)
    if (equal(map->fields[i].name, name) && found++ == index) *value = map->fields[i].value;
  if (total) *total = found;
  return value->start != NULL;
}

CALLBACK(bool, http_get_header_values, stream *of, int type, buffer name, buffer *values) {
  map *map = &of->maps[type];
  callbacks++;
  for (size_t i = 0; i < map->count; i++)
    if (equal(map->fields[i].name, name)) *values++ = map->fields[i].value;
  return true;
}

CALLBACK(size_t, http_get_headers_size, stream *of, int type) {
  callbacks++;
  return of->maps[type].count;
}

CALLBACK(bool, http_get_headers, stream *of, int type, field *fields) {
  callbacks++;
  memcpy(fields, of->maps[type].fields, of->maps[type].count * sizeof(field));
  return true;
}

CALLBACK(bool, http_add_header, stream *of, int type, buffer name, buffer value) {
  callbacks++;
  if (type == RESPONSE && equal(name, text("set-cookie"))) {
    const char *end = memchr(value.start, ';', value.length);
    of->cookie_length = end ? (size_t)(end - value.start) : value.length;
    if (of->cookie_length > sizeof of->cookie) abort();
    memcpy(of->cookie, value.start, of->cookie_length);
  }
  return true;
}

/* Envoy copies; a request that is measured does not look at what it set. */
CALLBACK(bool, http_set_header, stream *of, int type, buffer name, buffer value) {
  callbacks++;
  drop(&of->maps[type], name);
  (void)value;
  return true;
}

/* Where the request goes, and who answered. */

CALLBACK(bool, http_filter_get_attribute_string, stream *of, int attribute, buffer *value) {
  (void)of;
  callbacks++;
  switch (attribute) {
    case 24: *value = text("192.0.2.1:40000"); return true;
    case 41: *value = text(HOST); return true;
    case 61: *value = text("web"); return true;
    case 63: *value = text("shop.example"); return true;
    default: return false;
  }
}

CALLBACK(bool, http_get_upstream_remote_address, stream *of, buffer *value) {
  return envoy_dynamic_module_callback_http_filter_get_attribute_string(of, 41, value);
}

CALLBACK(const void *, get_most_specific_route_config, stream *of) {
  (void)of;
  callbacks++;
  return NULL;
}

CALLBACK(bool, http_get_cluster_name, stream *of, buffer *value) {
  (void)of;
  callbacks++;
  *value = text(CLUSTER);
  return true;
}

CALLBACK(void, http_clear_route_cache, stream *of) {
  (void)of;
  callbacks++;
}

CALLBACK(bool, http_get_metadata_string, stream *of, int source, buffer namespace, buffer key, buffer *value) {
  (void)of, (void)namespace, (void)key;
  callbacks++;
  *value = text(SESSION);
  return source == 1;
}

CALLBACK(bool, http_set_filter_state_bytes, stream *of, buffer key, buffer value) {
  (void)of, (void)key, (void)value;
  callbacks++;
  return true;
}

CALLBACK(bool, http_set_filter_state_typed, stream *of, buffer key, buffer value) {
  (void)of, (void)key, (void)value;
  callbacks++;
  return true;
}

CALLBACK(bool, http_set_upstream_override_host, stream *of, buffer host, bool strict) {
  (void)strict;
  callbacks++;
  of->steered = equal(host, text(HOST));
  return true;
}

CALLBACK(uint32_t, http_filter_get_worker_index, stream *of) {
  (void)of;
  callbacks++;
  return 0;
}

/* The library. */

typedef const void *new_config(void *, buffer, buffer);
typedef const void *new_filter(const void *, void *);
typedef int on_headers(void *, const void *, bool);
typedef void on_stream(void *, const void *);
typedef void on_end(const void *);

static void *library;
static const void *config;
static new_filter *filter_new;
static on_headers *request_headers, *response_headers, *response_body;
static on_stream *stream_complete;
static on_end *filter_destroy;

static void *hook(const char *name) {
  char symbol[128];
  snprintf(symbol, sizeof symbol, "envoy_dynamic_module_on_%s", name);
  void *found = dlsym(library, symbol);
  if (!found) {
    fprintf(stderr, "expected %s in the library\n", symbol);
    exit(1);
  }
  return found;
}

static void load(const char *path) {
  static const char CONFIG[] =
      "{\"keys\": [{\"id\": 1, \"inline\": \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"}],"
      "\"policies\": {\"shop\": {\"cookie\": {\"name\": \"limpet-session\"}}}}";
  library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  const char *(*init)(void) = hook("program_init");
  new_config *config_new = hook("http_filter_config_new");
  filter_new = hook("http_filter_new");
  request_headers = hook("http_filter_request_headers");
  response_headers = hook("http_filter_response_headers");
  response_body = hook("http_filter_response_body");
  stream_complete = hook("http_filter_stream_complete");
  filter_destroy = hook("http_filter_destroy");
  config = init() ? config_new(&config, text("limpet"), text(CONFIG)) : NULL;
  if (!config) {
    fprintf(stderr, "the module refused its configuration\n");
    exit(1);
  }
}

/* A GET as Envoy has it behind its connection manager, and an answer with a body. */
static void fill(stream *stream, buffer cookie) {
  static const char *request[][2] = {{":authority", "shop.example"}, {":path", "/cart"}, {":method", "GET"},
      {":scheme", "https"}, {"user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"},
      {"accept", "text/html"}, {"accept-language", "en"}, {"accept-encoding", "gzip, br"},
      {"x-forwarded-proto", "https"}, {"x-request-id", "6f2c1c1e-6b1d-4b0e-9d5e-0d6c7f5f2b11"}};
  static const char *response[][2] = {{":status", "200"}, {"content-type", "text/html"}, {"content-length", "100"},
      {"date", "Mon, 23 Nov 2026 12:00:00 GMT"}, {"server", "backend"}, {"x-envoy-upstream-service-time", "1"}};
  memset(stream, 0, sizeof *stream);
  for (size_t i = 0; i < sizeof request / sizeof *request; i++)
    push(&stream->maps[REQUEST], text(request[i][0]), text(request[i][1]));
  if (cookie.length) push(&stream->maps[REQUEST], text("cookie"), cookie);
  for (size_t i = 0; i < sizeof response / sizeof *response; i++)
    push(&stream->maps[RESPONSE], text(response[i][0]), text(response[i][1]));
}

static void serve(stream *stream) {
  const void *filter = filter_new(config, stream);
  request_headers(stream, filter, true);
  response_headers(stream, filter, false);
  response_body(stream, filter, true);
  stream_complete(stream, filter);
  filter_destroy(filter);
}

static const struct {
  const char *name;
  bool has_cookie, is_forged, steered, issued;
} kinds[] = {
    {"steady", true, false, true, false},
    {"first", false, false, false, true},
    {"refused", true, true, false, true},
};

int main(int count_of_arguments, char **arguments) {
  static stream exchange, prepared;
  if (count_of_arguments != 4) return 2;
  size_t kind = 0, kinds_known = sizeof kinds / sizeof *kinds;
  while (kind < kinds_known && strcmp(kinds[kind].name, arguments[2]) != 0) kind++;
  if (kind == kinds_known) return 2;
  load(arguments[1]);

  char cookie[1024] = "theme=dark; ";
  fill(&exchange, (buffer){0});
  serve(&exchange);
  strncat(cookie, exchange.cookie, exchange.cookie_length);
  /* The last letter but one: all its bits count. */
  char *forged = cookie + strlen(cookie) - 2;
  if (kinds[kind].is_forged) *forged = *forged == 'A' ? 'B' : 'A';
  strcat(cookie, "; _ga=GA1.1.1234567890.1700000000");

  fill(&prepared, kinds[kind].has_cookie ? text(cookie) : (buffer){0});
  for (long left = atol(arguments[3]); left > 0; left--) {
    exchange = prepared;
    serve(&exchange);
    if (exchange.steered != kinds[kind].steered || (exchange.cookie_length != 0) != kinds[kind].issued) {
      fprintf(stderr, "%s: the module did something else\n", arguments[2]);
      return 1;
    }
  }
  printf("callbacks %lu allocations %lu\n", callbacks, allocations);
  return 0;
}
