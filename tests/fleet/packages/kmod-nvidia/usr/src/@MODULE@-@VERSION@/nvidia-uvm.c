#include "module.h"
STAND_IN_MODULE("nvidia_uvm");
MODINFO(depends, "depends=nvidia");
