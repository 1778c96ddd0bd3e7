/* Serial DFU as boot loaders of Adafruit's speak it, Nordic's of SDK 11: packets of its HCI transport between SLIP's ends. */
#pragma once
#include "machine.h"

/* What the boot loader takes: for this kind of device, beside this SoftDevice, into this part of the flash. */
struct dfu {
    uint16_t device, softdevice;
    uint32_t first, end;
};

/* The next byte from the host; true when a whole image has been written that has the checksum of its init packet. */
bool dfu_take(struct machine *m, const struct dfu *kind, uint8_t byte);
