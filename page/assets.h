/* The files of the page, as they are served; cmake/embed.cmake makes the table. */
#ifndef COXI_PAGE_ASSETS_H
#define COXI_PAGE_ASSETS_H

#include <stddef.h>

enum { COXI_PAGE_ASSETS_MAX = 32 };

struct coxi_page_asset {
    const char *path; /* "/app.js" */
    const char *type; /* media type */
    const unsigned char *bytes;
    size_t len;
};

extern const struct coxi_page_asset coxi_page_assets[];
extern const size_t coxi_page_n_assets;

#endif
