/* Gaps between pieces of one mapping, by which AddressSanitizer sees what runs over from one into the next. Without it there
 * are none. */
#ifndef ASSAY_ENGINE_BASE_MEMORY_GAP_H
#define ASSAY_ENGINE_BASE_MEMORY_GAP_H

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_IS_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMORY_IS_WATCHED 1
#endif
#endif

#ifdef MEMORY_IS_WATCHED
#include <sanitizer/asan_interface.h>
enum { MEMORY_GAP = 64 };
#define memory_forbid(from, bytes) ASAN_POISON_MEMORY_REGION(from, bytes)
#define memory_allow(from, bytes) ASAN_UNPOISON_MEMORY_REGION(from, bytes)
#else
enum { MEMORY_GAP = 0 };
#define memory_forbid(from, bytes) ((void)(from), (void)(bytes))
#define memory_allow(from, bytes) ((void)(from), (void)(bytes))
#endif

#endif
