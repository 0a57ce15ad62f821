/* Stand-in for the module behind /dev/nvidia-uvm. */
#include <linux/module.h>

static int __init begin(void)
{
	return 0;
}

static void __exit end(void)
{
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("NVIDIA");
MODULE_VERSION("535.261.03");
