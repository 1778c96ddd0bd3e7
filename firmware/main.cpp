#include "firmware/wire/session.hpp"

int main() { wire::serve(); }
