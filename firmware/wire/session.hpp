// The firmware beside its model: sessions with the host, one after the other (session.cpp).
#pragma once

namespace wire {

[[noreturn]] void serve();

}  // namespace wire
