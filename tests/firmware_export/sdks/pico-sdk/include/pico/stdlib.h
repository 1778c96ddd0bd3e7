static inline void stdio_init_all(void) {}
