/* One step more than a module may have. */
#include "many.h"

COX_STEPS(STEPS_256, COX_STEP("one_more", nothing));
