/* banned.h: calls that this project doesn't use become compile errors. Included in front of every
 * file by the build. */
#ifndef COMMON_BANNED_H
#define COMMON_BANNED_H

/* The system headers that declare them come first, or their own declarations would fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Macros in some builds of glibc's headers; a macro can't be poisoned. */
#undef alloca
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncpy strncat strtok sprintf vsprintf gets atoi atol atoll atof \
    system alloca
#pragma GCC poison tmpnam mktemp tempnam popen

#endif
