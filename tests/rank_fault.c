/* For LD_PRELOAD: aligned memory is refused to every thread but the first, as a machine that runs out of it would. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void *aligned_alloc(size_t alignment, size_t size)
{
	static void *(*next)(size_t, size_t);

	if (gettid() != getpid()) {
		errno = ENOMEM;
		return NULL;
	}
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "aligned_alloc");
	return next(alignment, size);
}
