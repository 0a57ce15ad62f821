#include "module.h"
STAND_IN_MODULE("nvidia");
MODINFO(depends, "depends=");
MODINFO(alias, "alias=pci:v000010DEd*sv*sd*bc03sc02i00*");
