/* See formats.h. */
#include "data/formats.h"

#include "data/format_criteo.h"
#include "data/format_csv.h"
#include "data/format_libsvm.h"
#include "data/format_recordio.h"
#include "data/format_text.h"
#include "data/format_tfrecord.h"

static const struct {
    uint32_t number; /* enum cox_format */
    const struct coxi_format *format;
} formats[] = {
    {COX_RECORDIO, &coxi_format_recordio}, {COX_TFRECORD, &coxi_format_tfrecord},
    {COX_LIBSVM, &coxi_format_libsvm},     {COX_LIBFFM, &coxi_format_libffm},
    {COX_CRITEO, &coxi_format_criteo},     {COX_CSV, &coxi_format_csv},
    {COX_TEXT, &coxi_format_text},
};

const struct coxi_format *coxi_format_of(uint32_t format)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        if (formats[i].number == format) {
            return formats[i].format;
        }
    }
    return NULL;
}
