/* Where programs and spies write their lines: each whole into the file that COLLCOST_SAYS names, since
 * launchers forward outputs in pieces and may mix those of several ranks; else to standard error. */
#include <stdio.h>
#include <stdlib.h>

static FILE *said(void)
{
    static FILE *to;
    if (!to) {
        const char *file = getenv("COLLCOST_SAYS");
        to = file ? fopen(file, "a") : stderr;
        if (!to)
            abort();
        if (file)
            setvbuf(to, NULL, _IOLBF, 4096);
    }
    return to;
}
