#include "module.h"
STAND_IN_MODULE("nvidia_drm");
MODINFO(depends, "depends=nvidia-modeset");
