/* Stand-in for NVIDIA's module: a driver that takes NVIDIA's 3D controllers and does nothing with them. */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define VERSION "535.261.03"
/* NVIDIA's numbers, by which systemd lets a service make the device files. There is nothing behind them. */
#define NODES MKDEV(195, 0)
#define COUNT 256

static const struct pci_device_id cards[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, PCI_ANY_ID), .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0 },
	{ }
};
MODULE_DEVICE_TABLE(pci, cards);

static int take(struct pci_dev *card, const struct pci_device_id *id)
{
	return 0;
}

static struct pci_driver driver = { .name = "nvidia", .id_table = cards, .probe = take };

static int show(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " VERSION "  stand-in\n");
	return 0;
}

static int __init begin(void)
{
	int failure = register_chrdev_region(NODES, COUNT, "nvidia");

	if (failure)
		return failure;
	failure = pci_register_driver(&driver);
	if (failure)
		unregister_chrdev_region(NODES, COUNT);
	if (!failure && proc_mkdir("driver/nvidia", NULL))
		proc_create_single("driver/nvidia/version", 0444, NULL, show);
	return failure;
}

static void __exit end(void)
{
	remove_proc_subtree("driver/nvidia", NULL);
	pci_unregister_driver(&driver);
	unregister_chrdev_region(NODES, COUNT);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("NVIDIA");
MODULE_VERSION(VERSION);
