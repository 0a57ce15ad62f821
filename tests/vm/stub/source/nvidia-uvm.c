/* Stand-in for the module behind /dev/nvidia-uvm. */
#include <linux/fs.h>
#include <linux/module.h>

#define NODES MKDEV(508, 0)
#define COUNT 2

static int __init begin(void)
{
	return register_chrdev_region(NODES, COUNT, "nvidia-uvm");
}

static void __exit end(void)
{
	unregister_chrdev_region(NODES, COUNT);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("NVIDIA");
MODULE_VERSION("535.261.03");
