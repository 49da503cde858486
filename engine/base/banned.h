/* Functions that do not compile in this project: each overruns its buffer or hides its errors. */
#ifndef ASSAY_ENGINE_BASE_BANNED_H
#define ASSAY_ENGINE_BASE_BANNED_H

/* Standard headers first, so that the poison below meets only our own uses. */
#include <stdio.h>  /* IWYU pragma: keep */
#include <stdlib.h> /* IWYU pragma: keep */
#include <string.h> /* IWYU pragma: keep */

#ifndef __cplusplus
#undef alloca /* a macro of alloca.h */
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gets alloca
#endif

#endif
