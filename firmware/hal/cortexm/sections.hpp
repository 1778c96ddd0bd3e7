// Set-up of the timed sections (section_begin, section_end), called by the chip's init() after its clocks.
#pragma once

namespace cortexm {

void init_sections();

}  // namespace cortexm
