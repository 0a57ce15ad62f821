#include "module.h"
STAND_IN_MODULE("nvidia_modeset");
MODINFO(depends, "depends=nvidia");
