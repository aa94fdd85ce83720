/* As many steps as a module may have: s00 to sff. */
#include "many.h"

COX_STEPS(STEPS_256);
